"""Operations on the service as a whole: its status, its list of stores, and sessions.

As in all of the core, an `Operation` does no input or output: it yields effects, and a driver carries them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from milepost.core.calls import answers, file_answers
from milepost.core.calls.calls import Caller
from milepost.core.calls.request import JSON_MEDIA_TYPE, Request, call_of, checked_name, json_body
from milepost.core.effects import Emit, Operation
from milepost.core.lease import Lease
from milepost.errors import InvalidRequest, NotSupported, SessionLost, SessionUnknown
from milepost.job_types import JobInfo
from milepost.operations.handles import (
    END_SESSION,
    GET_JOB,
    GET_JOB_HISTORY,
    GET_SESSION,
    LIST_JOBS,
    LIST_SESSIONS,
    LIST_STORES,
    OPEN_SESSION,
)
from milepost.operations.operation import RestOperation
from milepost.operations.replicas import GET_STATUS, STEP_DOWN, WHOAMI
from milepost.types import Process, Rights, SessionInfo, Status, SteppedDown
from milepost.wire import MAX_PAGE, MAX_TTL_SECONDS, MIN_TTL_SECONDS, Code

END_SESSION_SECONDS = 2.0
"""The most seconds to wait for the end of a session: if the service cannot be reached, the session's TTL ends it
anyway.
"""

_MOST_CHARACTERS = 200

T = TypeVar("T")


def status(caller: Caller, timeout: float | None = None) -> Operation[Status]:
    """Ask any one replica, whether it leads or not, for its own status and for the leader that it knows."""
    request = Request(*call_of(GET_STATUS), answers.document(answers.status), local=True)
    return (yield from caller.call(request, timeout=timeout)).value


def whoami(caller: Caller, timeout: float | None = None) -> Operation[Rights]:
    """Ask any one replica, whether it leads or not, for the rights of this client."""
    request = Request(*call_of(WHOAMI), answers.document(answers.rights), local=True)
    return (yield from caller.each[0].call(request, timeout=timeout)).value  # all cells have the same tokens


def step_down(caller: Caller, term: int | None, timeout: float | None) -> Operation[SteppedDown]:
    """Ask the leader to let another replica lead; with ``term``, only the leader of that term.

    The leader may need the whole timeout to finish the requests in flight. Raises `Fenced` if ``term`` is not the
    leader's.
    """
    timeout = caller.timeout if timeout is None else timeout
    body = json_body({} if term is None else {"term": term})
    reader = answers.document(answers.stepped_down)
    request = Request(*call_of(STEP_DOWN), reader, {"Content-Type": JSON_MEDIA_TYPE}, body, timeout)
    return (yield from caller.call(request, timeout=timeout)).value


def stores(caller: Caller, timeout: float | None = None) -> Operation[None]:
    """Fetch page after page of the list of stores, each within ``timeout``, and emit each `StoreSummary`."""
    yield from _pages(caller.each, LIST_STORES, answers.stores, timeout, MAX_PAGE)


def sessions(caller: Caller, timeout: float | None = None) -> Operation[None]:
    """Fetch page after page of the list of living sessions, each within ``timeout``, and emit each `SessionSummary`.

    Raises `NotSupported` if the service is of a release that cannot list sessions.
    """
    try:
        yield from _pages(caller.each, LIST_SESSIONS, answers.sessions, timeout, MAX_PAGE)
    except InvalidRequest as refused:
        if refused.code is not Code.METHOD_NOT_ALLOWED:
            raise
        detail = "this service is of a release that does not list sessions; one session can be asked for by its id"
        raise NotSupported(Code.NOT_SUPPORTED, detail) from refused


def job_history(caller: Caller, job: str, page_size: int, timeout: float | None = None) -> Operation[None]:
    """Fetch page after page of the history of a job, each of ``page_size`` entries within ``timeout``, and emit each
    `HistoryEntry`, the newest first. Raises `NotExist`.
    """
    name = checked_name(job, "store")
    yield from _pages((caller,), GET_JOB_HISTORY, file_answers.history, timeout, page_size, name)


def _pages(
    callers: Sequence[Caller],
    listing: RestOperation,
    reader: Callable[[str | None], Callable[[Any], Any]],
    timeout: float | None,
    page_size: int,
    *parameters: str,
    **query: str,
) -> Operation[None]:
    """Fetch the list of the operation ``listing`` page after page, each within ``timeout``, and emit each entry:
    the list of each deployment that one of ``callers`` reaches.

    ``reader`` makes the reader for the page after a token (None: the first page). ``parameters`` are those of the path,
    and ``query`` is the same for each page.
    """
    for caller in callers:
        token: str | None = None
        while True:
            call = call_of(listing, *parameters, limit=page_size, token=token, **query)
            request = Request(*call, answers.document(reader(token)))
            reply = yield from caller.call(request, timeout=timeout)
            found, token = reply.value
            for entry in found:
                yield Emit(entry)
            if token is None:
                break


def jobs(caller: Caller, dropped: bool, timeout: float | None = None) -> Operation[None]:
    """Fetch page after page of the list of jobs, each within ``timeout``, and emit each `JobSummary`. With ``dropped``,
    the list has the dropped jobs in place of the others.
    """
    query = {"dropped": "true"} if dropped else {}
    yield from _pages(caller.each, LIST_JOBS, file_answers.jobs, timeout, MAX_PAGE, **query)


def job_info(caller: Caller, job: str, timeout: float | None = None) -> Operation[JobInfo]:
    """Return a job as a whole. Raises `NotExist`."""
    request = Request(*call_of(GET_JOB, checked_name(job, "store")), answers.document(file_answers.job_info))
    return (yield from caller.call(request, timeout=timeout)).value


def session_info(caller: Caller, session: str, timeout: float | None = None) -> Operation[SessionInfo]:
    """Return what the service knows of a session. Raises `SessionExpired` if the session has ended, and
    `SessionUnknown` if the service does not know it.
    """
    named = checked_name(session, "session")
    request = Request(*call_of(GET_SESSION, named), answers.document(answers.session))
    return (yield from _in_some_cell(caller, request, timeout))


def _in_some_cell(caller: Caller, request: Request[T], timeout: float | None) -> Operation[T]:
    """Send a request about a session to each cell until one knows the session, and return the answer."""
    *others, last = caller.each
    for each in others:
        try:
            return (yield from each.call(request, timeout=timeout)).value
        except SessionUnknown:
            continue
    return (yield from last.call(request, timeout=timeout)).value


def begin_session(
    caller: Caller,
    holder: str,
    ttl: float,
    session: str | None,
    timeout: float | None = None,
    process: Process | None = None,
) -> Operation[Lease]:
    """Begin a session and return its lease; if a session with this id is alive already, renew it.

    Without an id, the client makes one. So if the answer to an attempt is lost, the retry renews the session that the
    first attempt began. Raises `SessionExpired` if the session with this id has ended.

    A service of an earlier release refuses a session whose ``process`` is described. It is asked again without the
    description, which is only for people to read.
    """
    if not MIN_TTL_SECONDS <= ttl <= MAX_TTL_SECONDS:
        raise InvalidRequest(
            Code.INVALID_REQUEST, f"ttl {ttl:g} s is not within {MIN_TTL_SECONDS} and {MAX_TTL_SECONDS}"
        )
    id_ = checked_name(session, "session") if session is not None else caller.new_id()
    members: dict[str, Any] = {"ttl": ttl, "holder": holder, "session": id_}
    described = {} if process is None else {"process": _members_of(process)}
    try:
        reply = yield from caller.call(_opening(id_, members | described), timeout=timeout)
    except InvalidRequest:
        if not described:
            raise
        reply = yield from caller.call(_opening(id_, members), timeout=timeout)
    return Lease(reply.value.session, reply.value.ttl, reply.began, caller.clock)


def _opening(session: str, members: dict[str, Any]) -> Request[SessionInfo]:
    reader = answers.document(answers.session_of(session), 200, 201)
    return Request(*call_of(OPEN_SESSION), reader, {"Content-Type": JSON_MEDIA_TYPE}, json_body(members))


def _members_of(process: Process) -> dict[str, Any]:
    """Return what a request says of a process: the stated members, without those that the service would refuse."""
    ui = process.ui if (process.ui or "").startswith(("http://", "https://")) else None
    stated = {"host": process.host, "pid": process.pid, "application": process.application, "ui": ui}
    return {
        name: value
        for name, value in stated.items()
        if value and len(str(value)) <= _MOST_CHARACTERS and str(value).isprintable()
    }


def end_other_session(caller: Caller, session: str, timeout: float | None = None) -> Operation[None]:
    """End a session that another process holds. Raises `SessionExpired` if it has ended, `SessionUnknown` if the
    service does not know it, and `AccessDenied` if it belongs to another client.
    """
    named = checked_name(session, "session")
    yield from _in_some_cell(caller, Request(*call_of(END_SESSION, named), answers.nothing), timeout)


def end_session(caller: Caller, lease: Lease, timeout: float | None = None) -> Operation[None]:
    """End a session within ``timeout`` seconds (default: `END_SESSION_SECONDS`). If the session has already ended, that
    is no error.
    """
    timeout = END_SESSION_SECONDS if timeout is None else timeout
    lease.end("it was closed")  # ended before the request is sent: from now on no call may use the session
    try:
        yield from caller.call(Request(*call_of(END_SESSION, lease.session), answers.nothing), timeout=timeout)
    except SessionLost:
        return

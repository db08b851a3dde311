"""What a person wishes of the driver of a job, which is to stop or to hand over: ask for it, learn of it, and wait for
its effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from milepost.core.calls import answers
from milepost.core.calls.calls import Caller
from milepost.core.calls.outages import OUTAGES
from milepost.core.calls.request import JSON_MEDIA_TYPE, Request, call_of, checked_name, json_body
from milepost.core.effects import Operation, Sleep
from milepost.core.event_stream import EventStream
from milepost.core.store_calls import StoreCalls
from milepost.core.watch import store_stream
from milepost.errors import AccessDenied, Compacted, DeadlineExceeded, InvalidRequest, NotSupported
from milepost.job_types import JobState
from milepost.operations.handles import GET_EPOCH, HAND_OVER_JOB, START_JOB, STOP_JOB
from milepost.operations.operation import RestOperation
from milepost.types import Epoch, StoreEvent, Wish
from milepost.wire import HEARTBEAT_SECONDS, MAX_REASON_CHARACTERS, STANDBY_SECONDS, Code, Header

POLL_SECONDS: Final = 1.5 * HEARTBEAT_SECONDS
"""The seconds between two readings of the epoch while the service sends no events. A stream of events shows within
this time that it lasts.
"""
_STREAM_SECONDS: Final = 300.0
"""The seconds after which the epoch is read once more although events come."""
_LEAST_TO_ASK: Final = 1.0
_KINDS: Final = frozenset({"epoch-granted", "epoch-ended", "stop-requested", "hand-over-requested"})


def stop_job(
    caller: Caller, job: str, savepoint: str | None, who: str, reason: str, timeout: float | None
) -> Operation[JobState]:
    """Ask the driver of a job to stop, and bar the next epoch. Raises `NotExist`, `AlreadyExists`."""
    members = {} if savepoint is None else {"savepoint": checked_name(savepoint, "savepoint")}
    return (yield from _asked(caller, STOP_JOB, job, members, who, reason, timeout))


def hand_over_job(
    caller: Caller,
    job: str,
    epoch: int | None,
    force: bool,
    who: str,
    reason: str,
    timeout: float | None,
    to: str | None = None,
) -> Operation[JobState]:
    """Ask the driver of a job to resign, so that a standby leads, the one called ``to`` if that is given. Raises
    `NotExist`, `Fenced`.
    """
    members: dict[str, Any] = {} if epoch is None else {"epoch": epoch}
    members |= {} if to is None else {"to": to}
    members |= {"force": True} if force else {}
    return (yield from _asked(caller, HAND_OVER_JOB, job, members, who, reason, timeout))


def start_job(caller: Caller, job: str, who: str, reason: str, timeout: float | None) -> Operation[JobState]:
    """Take a wish to stop back. Raises `NotExist`."""
    return (yield from _asked(caller, START_JOB, job, {}, who, reason, timeout))


def _asked(
    caller: Caller,
    operation: RestOperation,
    job: str,
    members: dict[str, Any],
    who: str,
    reason: str,
    timeout: float | None,
) -> Operation[JobState]:
    shown = "".join(each if each.isprintable() else "?" for each in who)[:MAX_REASON_CHARACTERS]
    body = json_body({**members, "who": shown, "reason": reason})
    call = call_of(operation, checked_name(job, "store"))
    headers, wait = {"Content-Type": JSON_MEDIA_TYPE}, STANDBY_SECONDS if operation is HAND_OVER_JOB else 0.0
    request = Request(*call, answers.document(answers.job_state), headers, body, wait)
    try:
        return (yield from caller.call(request, timeout=timeout)).value
    except InvalidRequest as refused:
        if refused.code not in (Code.NO_ROUTE, Code.METHOD_NOT_ALLOWED):
            raise
        detail = "this service is of a release that cannot ask a driver: stop the driver itself, by SIGTERM"
        raise NotSupported(Code.NOT_SUPPORTED, detail) from refused


def wait_for_wish(calls: StoreCalls, timeout: float | None) -> Operation[Wish | None]:
    """Wait until a person wishes that the epoch of ``calls`` ends, and return the wish; None once the epoch has ended.
    Raises `DeadlineExceeded` after ``timeout`` seconds; None is no limit.
    """
    epoch = calls.epoch

    def is_reached(current: Epoch) -> bool:
        return _has_ended(current, epoch) or (current.wish is not None and current.wish.epoch == epoch)

    deadline = math.inf if timeout is None else calls.caller.clock() + timeout
    found = yield from _current_epoch(calls, is_reached, deadline)
    if found is None:
        raise DeadlineExceeded(f"nobody wished that epoch {epoch} of {calls.store} ends within {timeout:.3g} s")
    return None if _has_ended(found, epoch) else found.wish


def wait_for_end(calls: StoreCalls, epoch: int, timeout: float | None) -> Operation[Epoch]:
    """Wait until no session holds ``epoch`` any more, and return the current epoch. Raises `DeadlineExceeded` after
    ``timeout`` seconds; None is the client's.
    """
    seconds = calls.caller.timeout if timeout is None else timeout
    deadline = calls.caller.clock() + seconds
    found = yield from _current_epoch(calls, lambda current: _has_ended(current, epoch), deadline)
    if found is None:
        raise DeadlineExceeded(f"epoch {epoch} of {calls.store} has not ended within {seconds:.3g} s")
    return found


def _has_ended(current: Epoch, epoch: int | None) -> bool:
    return current.session is None or current.epoch != epoch


def _current_epoch(calls: StoreCalls, is_reached: Callable[[Epoch], bool], deadline: float) -> Operation[Epoch | None]:
    """Read the current epoch, and again as soon as an event says that it has changed, until ``is_reached`` returns True
    for it; return it then, and None once the deadline has passed.

    Outages do not end the wait. If the service sends no events, the epoch is read every `POLL_SECONDS`.
    """
    clock = calls.caller.clock
    reading = Request(*calls.at(GET_EPOCH), answers.document(answers.epoch))
    seconds = POLL_SECONDS
    while True:
        left = deadline - clock()
        try:
            reply = yield from calls.caller.call(reading, timeout=max(_LEAST_TO_ASK, min(left, calls.caller.timeout)))
        except OUTAGES:
            if deadline - clock() <= 0:
                return None
            yield Sleep(min(_LEAST_TO_ASK, max(0.0, deadline - clock())))
            continue
        if is_reached(reply.value):
            return reply.value
        if deadline - clock() <= 0:
            return None
        place = reply.answer.headers[Header.REVISION.lower()]
        lasts = yield from _changed(calls, store_stream(calls, place, min(deadline, clock() + seconds)), deadline)
        seconds = _STREAM_SECONDS if lasts else POLL_SECONDS


def _changed(calls: StoreCalls, stream: EventStream[StoreEvent], deadline: float) -> Operation[bool]:
    """Wait until the stream has an event about the epoch, or ends. Return whether the service sends events."""
    try:
        while (event := (yield from stream.next())) is not None and event.type not in _KINDS:
            pass
    except (Compacted, NotSupported, InvalidRequest, AccessDenied):
        yield Sleep(min(POLL_SECONDS, max(0.0, deadline - calls.caller.clock())))
        return False
    return stream.lasts

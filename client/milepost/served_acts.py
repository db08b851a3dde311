"""Plans and performs acts on jobs, as a process of its own: ``python -m milepost.served_acts``.

It is for a server that offers these acts to clients without this SDK. The process has no connection to anything but the
server that started it: it sends the requests of its `Client` through the pipe, and the server answers them as requests
of the caller, with the rights of the caller. It performs one act after the other, and ends when its input ends.

The messages are those of `milepost.process_pipe`:

================================  ======================================================================================
an act, from the server           ``{"act", "job", "dry_run", "holder", "epoch", "seconds"}``, and what the act takes:
                                  ``snapshot``, ``batch`` or ``as_of``; ``source``, ``new_query_id``, and the ``cell``
                                  of the server, empty if it is none; ``partitions``
a request, to the server          ``{"request": NUMBER, "method", "target", "headers": [[name, value]]}`` and the body
the server's answer to it         ``{"response": NUMBER, "status", "headers"}`` and the body, or
                                  ``{"response": NUMBER, "lost": WHY}``, or ``{"response": NUMBER, "refused": WHY}`` if
                                  it would be so again
the end of the act                ``{"answer"}``, or ``{"refusal": CODE, "why", "outcome", "extras"}``: a problem of
                                  `milepost.wire`
================================  ======================================================================================
"""

from __future__ import annotations

import itertools
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

import httpx

from milepost import cloning, dropping, rescaling, restoring
from milepost.client import Client
from milepost.core.calls.outages import OUTAGES
from milepost.errors import (
    CellsDiffer,
    CheckpointDamaged,
    ConnectionFailed,
    DeadlineExceeded,
    Fenced,
    MilepostError,
    NoSafeCheckpoint,
    NotSupported,
    OutcomeUnknown,
    Problem,
    RecordUnreadable,
    StateTruncated,
    UnsafeQuery,
    WrongCheckpoint,
)
from milepost.process_pipe import ProcessPipe, bound_memory
from milepost.store import StateHandleStore
from milepost.wire import Code, Outcome

_URL: Final = "http://service"
_MEMORY: Final = 256 * 1024 * 1024
_SESSION_SECONDS: Final = 15.0
_CALL_SECONDS: Final = 30.0
"""The most seconds of a call, unless it checks or copies a snapshot: as long an outage ends the act."""
_IN_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "restore": ("source", "state", "output", "sink"),
    "clone": ("query", "input", "state", "output", "sink"),
    "drop": (),
    "rescale": ("source", "state", "output", "sink"),
}
"""The members of the plan of each act that say in words what becomes of a part of the job."""

_CODES: Final[tuple[tuple[type[MilepostError], Code], ...]] = (
    (CheckpointDamaged, Code.BLOB_MISSING),
    (NoSafeCheckpoint, Code.UNSAFE),
    (UnsafeQuery, Code.UNSAFE),
    (WrongCheckpoint, Code.UNSAFE),
    (RecordUnreadable, Code.CORRUPT),
    (ConnectionFailed, Code.NO_LEADER),
    (DeadlineExceeded, Code.STORAGE_UNAVAILABLE),
    (StateTruncated, Code.STORAGE_UNAVAILABLE),
    (MilepostError, Code.NOT_SUPPORTED),
)
"""The code of each error that is no `Problem`, the first that fits."""

Act = Mapping[str, Any]


class PipeTransport(httpx.BaseTransport):
    """Carries the requests of a client through the pipe. Several threads may wait for their answers."""

    def __init__(self, pipe: ProcessPipe) -> None:
        self._pipe = pipe
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[tuple[dict[str, Any], bytes]]] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the server, and wait for its answer. Raises the errors of httpx for what was lost, and
        `NotSupported` for what cannot be answered here.
        """
        content, target = request.read(), request.url.raw_path.decode("ascii")
        if request.url.host != httpx.URL(_URL).host:
            raise httpx.ConnectError(f"{request.url.host} is not the server that started this process")
        number, answers = next(self._numbers), queue.SimpleQueue[tuple[dict[str, Any], bytes]]()
        self._waiting[number] = answers
        headers = [(name, value) for name, value in request.headers.items() if name != "host"]
        seconds = request.extensions.get("timeout", {}).get("read")
        try:
            self._pipe.send(
                {"request": number, "method": request.method, "target": target, "headers": headers}, content
            )
            answer, body = answers.get(timeout=seconds)
        except queue.Empty as error:
            raise httpx.ReadTimeout(f"no answer in {seconds} s") from error
        finally:
            del self._waiting[number]
        if "refused" in answer:
            raise NotSupported(Code.NOT_SUPPORTED, answer["refused"])
        if "lost" in answer:
            raise httpx.ReadError(answer["lost"])
        return httpx.Response(answer["status"], headers=answer["headers"], content=body)

    def take(self, message: dict[str, Any], body: bytes) -> None:
        """Pass an answer of the server to the thread that waits for it; drop it if none does any more."""
        if (waiting := self._waiting.get(message["response"])) is not None:
            waiting.put((message, body))


def performed(client: Client, act: Act) -> dict[str, Any]:
    """Plan an act, perform it unless it is a dry run, and return what became of it. Raises `MilepostError`."""
    return _ACTS[act["act"]](client, act)


def _restored(client: Client, act: Act) -> dict[str, Any]:
    job, seconds = act["job"], act["seconds"]
    store, info = client.store(job), client.job_info(job)
    made = restoring.planned(store, _snapshot_of(store, act), timeout=seconds)
    if not act["dry_run"]:
        with _led(client, act) as led:
            made = restoring.restore(led, made.snapshot, timeout=seconds)
    return _told(act, info.epoch.epoch, info.epoch.holder, asdict(made))


def _cloned(client: Client, act: Act) -> dict[str, Any]:
    source, seconds, renamed = client.store(act["source"]), act["seconds"], act["new_query_id"]
    client.job_info(act["source"])  # raises if there is no such job
    store, name = client.store(act["job"]), _snapshot_of(source, act)
    made = cloning.planned(store, source, name, new_query_id=renamed, timeout=seconds)
    epoch = store.current_epoch()
    if act["cell"] and not epoch.epoch:  # the service would refuse the campaign
        detail = (
            f"no clone begins in the cell {act['cell']!r} by this call: milepost jobs clone finds the cell of a job"
        )
        raise CellsDiffer(Code.CELLS_DIFFER, detail, extras={"cell": act["cell"]})
    if not act["dry_run"]:
        with _led(client, {**act, "epoch": epoch.epoch}) as led:
            made = cloning.clone(led, source, made.snapshot, new_query_id=renamed, timeout=seconds)
    return _told(act, epoch.epoch, epoch.holder, asdict(made))


def _dropped(client: Client, act: Act) -> dict[str, Any]:
    store, info = client.store(act["job"]), client.job_info(act["job"])
    made = dropping.planned(store, info)
    if not act["dry_run"] and info.state != "dropped":
        with _led(client, act) as led:
            made = dropping.drop(led, made)
    told = asdict(made)
    del told["dropped"], told["state"]
    return _told(act, info.epoch.epoch, info.epoch.holder, told)


def _rescaled(client: Client, act: Act) -> dict[str, Any]:
    info = client.job_info(act["job"])
    made = rescaling.planned(act["job"], client.store(act["job"]).files, act["partitions"])
    return _told(act, info.epoch.epoch, info.epoch.holder, asdict(made))


_ACTS: Final[Mapping[str, Callable[[Client, Act], dict[str, Any]]]] = {
    "restore": _restored,
    "clone": _cloned,
    "drop": _dropped,
    "rescale": _rescaled,
}


def _snapshot_of(store: StateHandleStore, act: Act) -> str:
    as_of = None if act["as_of"] is None else datetime.fromisoformat(act["as_of"])
    return restoring.chosen(store.files.snapshots(), act["snapshot"], act["batch"], as_of)


def _told(act: Act, epoch: int, holder: str | None, plan: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to an act: its plan, with the words of the plan in a member of their own, the epoch that the
    job had before, and who held it.
    """
    becomes = {part: plan.pop(part) for part in _IN_WORDS[act["act"]]}
    return {**plan, "job": act["job"], "done": not act["dry_run"], "epoch": epoch, "holder": holder, "becomes": becomes}


@contextmanager
def _led(client: Client, act: Act) -> Iterator[StateHandleStore]:
    """Yield the store of the act under the epoch that follows ``act["epoch"]``; resign after the block.

    So the act is done to what the caller has seen, and a repeated act is refused once it was done. Raises `EpochHeld`
    and `Fenced`. After the epoch was granted, an outage is raised as an unknown outcome, since it may have hit what
    follows the commit.
    """
    job, above = act["job"], client.status().epochs_above or 0
    expected = max(act["epoch"], above) + 1
    with client.session(act["holder"], _SESSION_SECONDS) as session:
        store = session.store(job)
        if (now := store.current_epoch()).epoch != act["epoch"]:
            raise _gone_on(job, now.epoch, act["epoch"])
        granted = store.campaign(0, if_stopped=True)
        try:
            if granted.epoch != expected:
                raise _gone_on(job, granted.epoch - 1, act["epoch"])
            try:
                yield store
            except OUTAGES as error:
                raise OutcomeUnknown(Code.OUTCOME_UNKNOWN, f"{job} was led for the act: {error}") from error
        finally:
            with suppress(MilepostError):  # the epoch then ends with its session
                store.resign()


def _gone_on(job: str, epoch: int, expected: int) -> Fenced:
    return Fenced(
        Code.FENCED,
        f"the epoch of {job} is {epoch} now, and the act is for epoch {expected}: a driver or a person has led the job "
        "meanwhile. Its history says who, and what was done",
        extras={"current": epoch},
    )


def _refusal(error: MilepostError) -> dict[str, Any]:
    if isinstance(error, Problem):
        outcome, code, why = error.outcome, error.code, error.detail
        return {"refusal": code.value, "why": why, "outcome": outcome.value, "extras": error.extras}
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    return {"refusal": code.value, "why": str(error), "outcome": Outcome.NOT_APPLIED.value, "extras": {}}


def answered(client: Client, act: Act) -> dict[str, Any]:
    """Return the message that ends an act: ``{"answer"}``, or ``{"refusal", …}``."""
    try:
        return {"answer": performed(client, act)}
    except MilepostError as error:
        return _refusal(error)


def main() -> None:
    """Perform the server's acts until the input ends."""
    bound_memory(_MEMORY)
    pipe = ProcessPipe(sys.stdin.buffer, sys.stdout.buffer)
    transport = PipeTransport(pipe)
    acts: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def receive() -> None:
        try:
            while (received := pipe.receive()) is not None:
                message, body = received
                if "response" in message:
                    transport.take(message, body)
                else:
                    acts.put(message)
        finally:  # also if the memory of this process does not suffice: nothing would be heard any more
            acts.put(None)

    threading.Thread(target=receive, name="milepost-pipe", daemon=True).start()
    while (act := acts.get()) is not None:
        with Client(_URL, timeout=min(act["seconds"], _CALL_SECONDS), transport=transport, trust_env=False) as client:
            pipe.send(answered(client, act))


if __name__ == "__main__":
    main()

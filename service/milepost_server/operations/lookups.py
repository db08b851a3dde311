"""Look up keys of the managed state of jobs. Separate worker processes decode the files of the state."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal

import msgspec

from milepost.errors import Problem
from milepost.wire import MAX_PAGE, Code, Outcome
from milepost_server.basics.problems import problem
from milepost_server.basics.worker_pool import Worker, WorkerEnded, WorkerPool
from milepost_server.model.records import Handle
from milepost_server.model.trees import Entry
from milepost_server.operations.files import FileReader
from milepost_server.operations.states import Span, StateReader
from milepost_server.operations.trees import At, TreeOperations

log = logging.getLogger("milepost.state")

_NEEDED = ("msgpack", "pyarrow", "sortedcontainers")
SECONDS = 20.0
"""The most seconds that a look-up may take. A look-up usually takes milliseconds, but the first one starts a process,
which takes seconds on a busy machine.
"""

_MOST_WAITING = 32
_MOST_BYTES = 16 * 1024 * 1024
"""The most bytes that a worker process may request at once: one record batch of a state file. This limits the memory
that the server uses for a look-up.
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A look-up: the values of a key (JSON) in a state of a job, in one variable of the state or in all of them.

    ``version`` is the version of the snapshot, None for the newest. The answer skips the first ``after`` values and has
    ``limit`` values at most.
    """

    state: str
    key: str
    variable: str | None
    version: int | None
    after: int
    limit: int


class Found(msgspec.Struct):
    """The values of a key at a snapshot. ``next`` is the value of `Question.after` for the next page, None on the last
    page.
    """

    version: int
    values: list[dict[str, Any]]
    next: int | None


class _Refusal(msgspec.Struct):
    refusal: str
    why: str


class _Asked(msgspec.Struct):
    ask: Literal["handle", "read", "list"]
    name: str
    start: Annotated[int, msgspec.Meta(ge=0)] = 0
    length: Annotated[int, msgspec.Meta(ge=0)] = 0
    after: str = ""


class StateLookups:
    """The operation that looks up the values of a key in the managed state of a job. It changes nothing."""

    def __init__(
        self,
        pool: WorkerPool,
        states: StateReader,
        files: FileReader,
        trees: TreeOperations,
        seconds: float = SECONDS,
    ) -> None:
        """Make the look-ups. ``pool`` has the worker processes, which run ``milepost.state.processors.lookups``. A
        look-up takes ``seconds`` at most.
        """
        self._pool = pool
        self._states = states
        self._files = files
        self._trees = trees
        self._seconds = seconds

    async def look_up(self, store: str, question: Question) -> Found:
        """Return the values of a key. Callers must await `TreeOperations.ready` first.

        Raises `Problem`, for example ``not-supported`` if the packages that decode state are not installed, and
        ``storage-unavailable`` if the look-up takes too long.
        """
        missing = _missing(_NEEDED)
        if missing:
            raise problem(
                Code.NOT_SUPPORTED,
                f"this server reads no state, since {', '.join(missing)} is not installed: install "
                "milepost-server-core with the extra state, or read it with the SDK",
            )
        if self._pool.waiting >= _MOST_WAITING:
            raise problem(Code.TOO_MANY_REQUESTS, f"{_MOST_WAITING} look-ups of state wait already")
        try:
            async with asyncio.timeout(self._seconds):
                found = await self._once_or_twice(store, question)
        except TimeoutError as error:
            raise problem(
                Code.STORAGE_UNAVAILABLE,
                f"the key was not found within {self._seconds:.0f} s, and is looked for no longer",
            ) from error
        except WorkerEnded as error:
            raise problem(
                Code.INTERNAL,
                f"the process that reads the state ended: {error}; its own messages are in the log",
                outcome=Outcome.NOT_APPLIED,
            ) from error
        if isinstance(found, Problem):
            raise found
        return found

    async def _once_or_twice(self, store: str, question: Question) -> Found | Problem:
        """Ask a worker process. If the process has ended, for example while it was idle, ask a second process."""
        try:
            async with self._pool.borrow() as worker:
                return await self._asked(worker, store, question)
        except WorkerEnded as error:
            log.warning("a process that reads state ended, and another one is asked: %s", error)
        async with self._pool.borrow() as worker:
            return await self._asked(worker, store, question)

    async def _asked(self, worker: Worker, store: str, question: Question) -> Found | Problem:
        """Ask a worker process, and send it the files that it requests meanwhile. Return its answer, or the problem
        that it reports. Raises `WorkerEnded`.
        """
        await worker.send(asdict(question))
        failed: Problem | None = None
        while True:
            message, _ = await worker.receive()
            try:
                if "answer" in message:
                    return msgspec.convert(message["answer"], Found)
                if "refusal" in message:
                    given = msgspec.convert(message, _Refusal)
                    if given.refusal == "failed":
                        return failed or problem(Code.INTERNAL, given.why)
                    return problem(Code(given.refusal), given.why)
                asked = msgspec.convert(message, _Asked)
            except (msgspec.ValidationError, ValueError) as error:
                raise WorkerEnded(f"it sent what is no message: {error}") from error
            try:
                answered, content = await self._result(store, asked)
            except Problem as error:
                failed = error
                answered, content = {"refused": _KINDS.get(error.code, "failed"), "why": error.detail}, b""
            await worker.send(answered, content)

    async def _result(self, store: str, asked: _Asked) -> tuple[dict[str, Any], bytes]:
        """Return what a worker process requests during a look-up: a JSON object that lists the files of a directory, or
        the bytes of a handle or a file; the other of the two is empty. Raises `Problem` with the code of the failed
        read.
        """
        match asked.ask:
            case "handle":
                return {}, await self._handle(store, asked.name)
            case "read":
                return {}, await self._read(At(store, asked.name), asked.start, asked.length)
            case "list":
                return await self._list(At(store, asked.name), asked.after), b""

    async def _handle(self, store: str, name: str) -> bytes:
        def whole(handle: Handle) -> Span:
            _check_size(handle.size)
            return Span(0, handle.size)

        delivery = await self._states.read(store, name, None, whole)
        return b"".join([chunk async for chunk in delivery.chunks])

    async def _read(self, at: At, start: int, length: int) -> bytes:
        def span_of(entry: Entry) -> Span:
            span = Span(min(start, entry.size), min(start + length, entry.size))
            _check_size(span.end - span.start)
            return span

        delivery = await self._files.read(at, None, span_of)
        return b"".join([chunk async for chunk in delivery.chunks])

    async def _list(self, at: At, after: str) -> dict[str, Any]:
        try:
            page = await self._trees.page(at, after, MAX_PAGE)
        except Problem as error:
            if error.code is Code.NOT_EXIST:
                return {"files": [], "next": None}
            raise
        now = datetime.fromisoformat(page.now)
        before = len(at.path) + 1
        files = [
            (one["path"][before:], one["size"], (now - datetime.fromisoformat(one["modified"])).total_seconds())
            for one in page.files
            if not one["directory"]
        ]
        return {"files": files, "next": page.next}


_KINDS = {
    Code.NOT_EXIST: "missing",
    Code.CORRUPT: "damaged",
    Code.BLOB_MISSING: "damaged",
}


@cache
def _missing(modules: tuple[str, ...]) -> list[str]:
    """Return the names of those of the modules that are not installed. None is imported, since only the worker
    processes need them.
    """
    return [name for name in modules if importlib.util.find_spec(name) is None]


def _check_size(size: int) -> None:
    if size > _MOST_BYTES:
        raise problem(
            Code.NOT_SUPPORTED,
            f"{size} bytes would have to be read at once, and the most is {_MOST_BYTES}: read the state with the SDK",
        )

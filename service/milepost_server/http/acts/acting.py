"""Performs acts on jobs that take several requests, such as a restore.

The SDK knows how: a worker process runs it (`milepost.served_acts`), and this process answers the requests of the
worker as requests of the caller, with the caller's credentials. The worker never sees these, and has no other
connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
from starlette.types import ASGIApp

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from milepost_server.basics.problems import problem
from milepost_server.basics.worker_pool import Worker, WorkerEnded, WorkerPool
from milepost_server.blobs.delivery import DeliveryCut
from milepost_server.http.acts.inner import AnswerTooLong, InnerRequest, answer_of

log = logging.getLogger("milepost.acts")

SECONDS: Final = 240.0
"""The most seconds that an act may take: a clone copies all bytes of a snapshot."""
_MARGIN_SECONDS: Final = 10.0
"""The seconds for which an act goes on after the deadline of its requests, so that it can say how it ended."""
_MOST_WAITING: Final = 8
_MOST_KNOWN: Final = 64
CREDENTIALS: Final = ("authorization", "host")
"""The header fields that a request of the worker has from the request of the caller."""


class _Request(msgspec.Struct):
    request: int
    method: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3,7}\Z")]
    target: Annotated[str, msgspec.Meta(pattern=r"^/[\x21-\x7e]*\Z")]
    headers: list[tuple[str, str]]


class _Refusal(msgspec.Struct):
    refusal: Code
    why: str
    outcome: Outcome
    extras: dict[str, Any]


class _Answer(msgspec.Struct):
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ActCaller:
    """Who asks for an act: the name of the client, empty if it is not identified; the scope of the request; and the
    values of its `CREDENTIALS`.
    """

    name: str
    scope: Mapping[str, Any]
    credentials: Sequence[tuple[str, str]]


@dataclass(slots=True)
class _Known:
    """An act that was asked for under an idempotency key, and its end once it is there."""

    act: Mapping[str, Any]
    end: asyncio.Future[dict[str, Any]] = field(default_factory=asyncio.Future)


class JobActs:
    """Performs acts for the clients of this replica. ``pool`` has the worker processes, and ``application`` answers
    their requests; it must be set before the first act.

    An act that is repeated under its idempotency key gets the end of the first, while this replica remembers it.
    Otherwise it is refused, since it names the epoch that it follows.
    """

    def __init__(self, pool: WorkerPool, seconds: float = SECONDS) -> None:
        self.application: ASGIApp | None = None
        self._pool = pool
        self._seconds = seconds
        self._known: dict[tuple[str, str], _Known] = {}
        self._answers: set[asyncio.Task[None]] = set()
        """Requests of workers that are being answered, also of a worker that has ended meanwhile."""

    async def perform(self, caller: ActCaller, key: str | None, act: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Perform an act that was asked for under an idempotency key; return its answer, and whether it is that of an
        earlier request. Raises `Problem`.
        """
        if key is None:
            return await self._performed(caller, act), False
        place = (caller.name, key)
        if (known := self._known.get(place)) is not None:
            if known.act != act:
                raise problem(Code.IDEMPOTENCY_MISMATCH, "the key was used for another act")
            return await asyncio.shield(known.end), True
        known = self._known[place] = _Known(act)
        known.end.add_done_callback(_look_at)
        if len(self._known) > _MOST_KNOWN:
            self._forget_one()
        try:
            known.end.set_result(await self._performed(caller, act))
        except BaseException as error:
            # What was refused, or has an unknown end, is performed anew if it is asked for again.
            self._known.pop(place, None)
            known.end.set_exception(error if isinstance(error, Problem) else _cut_off())
            raise
        return known.end.result(), False

    def _forget_one(self) -> None:
        """Forget the oldest act that has ended."""
        for place, known in self._known.items():
            if known.end.done():
                del self._known[place]
                return

    async def _performed(self, caller: ActCaller, act: Mapping[str, Any]) -> dict[str, Any]:
        if self._pool.waiting >= _MOST_WAITING:
            raise problem(Code.TOO_MANY_REQUESTS, f"{_MOST_WAITING} acts wait already")
        begun = False
        try:
            async with asyncio.timeout(self._seconds), self._pool.borrow() as worker:
                begun = True
                act_within = {**act, "seconds": max(1.0, self._seconds - _MARGIN_SECONDS)}
                ended = await self._asked(worker, caller, act_within)
        except (TimeoutError, WorkerEnded) as error:
            why = f"the act did not end within {self._seconds:.0f} s"
            if isinstance(error, WorkerEnded):
                why = f"the process that performs the act ended: {error}; its own messages are in the log"
            log.warning("%s of %s has no known end: %s", act["act"], act["job"], why)
            code = Code.OUTCOME_UNKNOWN if begun and not act["dry_run"] else Code.STORAGE_UNAVAILABLE
            raise problem(code, why) from error
        if isinstance(ended, _Refusal):  # raised here, since the pool ends a worker whose block raises
            raise Problem(ended.refusal, ended.why, outcome=ended.outcome, extras=ended.extras)
        return ended.answer

    async def _asked(self, worker: Worker, caller: ActCaller, act: Mapping[str, Any]) -> _Answer | _Refusal:
        """Let a worker perform an act, answer its requests meanwhile, and return its last message. Raises
        `WorkerEnded`.
        """
        await worker.send(act)
        while True:
            message, content = await worker.receive()
            if "request" not in message:
                ended: _Answer | _Refusal = _converted(message, _Answer if "answer" in message else _Refusal)
                return ended
            task = asyncio.create_task(self._answer(worker, caller, _converted(message, _Request), content))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)

    async def _answer(self, worker: Worker, caller: ActCaller, asked: _Request, body: bytes) -> None:
        """Answer a request of the worker. A worker that ended is noticed where its messages are received."""
        assert self.application is not None
        fields = [(name.lower(), value) for name, value in asked.headers if name.lower() not in CREDENTIALS]
        both = (*fields, *caller.credentials)
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in both]
        request = InnerRequest(asked.method, asked.target, encoded, body)
        try:
            exchange = await answer_of(self.application, request, caller.scope)
        except AnswerTooLong as error:
            told: dict[str, Any] = {"refused": str(error)}
            content = b""
        except DeliveryCut as error:
            told, content = {"lost": f"the answer was cut: {error}"}, b""
        else:
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in exchange.fields]
            told, content = {"status": exchange.status, "headers": headers}, bytes(exchange.content)
        try:
            await worker.send({"response": asked.request, **told}, content)
        except WorkerEnded as error:
            log.debug("an answer reached no process: %s", error)


def _converted(message: Mapping[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(message, kind)
    except msgspec.ValidationError as error:
        raise WorkerEnded(f"it sent what is no message: {error}") from error


def _cut_off() -> Problem:
    return problem(Code.OUTCOME_UNKNOWN, "the first request for this act was cut off")


def _look_at(end: asyncio.Future[dict[str, Any]]) -> None:
    """Look at the exception, if there is one, since perhaps no repeated request waits for it."""
    if not end.cancelled():
        end.exception()

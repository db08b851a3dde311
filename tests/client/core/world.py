"""A world without a network: operations are carried out against scripted answers, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, TypeVar

from milepost.core.body import SourceFailed, body_of
from milepost.core.calls.calls import Caller, Reply
from milepost.core.calls.replicas import Replicas
from milepost.core.calls.request import Request
from milepost.core.effects import Answer, Ask, AskFailed, Emit, Lost, Operation, Read, Send, Sleep, Work
from milepost.wire import PROBLEM_MEDIA_TYPE, PROBLEM_TYPE_PREFIX, PROBLEMS, Code, Outcome

T = TypeVar("T")
A, B, C = "http://a:7070", "http://b:7070", "http://c:7070"

Result = Answer | Lost
Reaction = Result | Callable[[Send], Result]


class World:
    """Virtual time, and what was sent and slept. ``script`` gives a reaction for each `Send`, in order.

    An entry ``(seconds, reaction)`` lets time pass first. A script that is used up fails the test.
    """

    def __init__(self, *script: Reaction | tuple[float, Reaction], addresses: Sequence[str] = (A, B, C)) -> None:
        self.now = 1000.0
        self.script = list(script)
        self.sent: list[Send] = []
        self.times: list[float] = []
        self.bodies: list[bytes | None] = []
        self.slept: list[float] = []
        self.emitted: list[Any] = []
        self.ids = (f"id-{n}" for n in count(1))
        self.replicas = Replicas(addresses, lambda: self.now)
        self.caller = self.make_caller()

    def make_caller(
        self,
        timeout: float = 30.0,
        token: str | Callable[[], str] | None = None,
        direct_above: int | None = None,
    ) -> Caller:
        """A caller in this world."""
        return Caller(
            self.replicas,
            timeout=timeout,
            token=token,
            direct_above=direct_above,
            clock=lambda: self.now,
            random=Random(7),
            new_id=lambda: next(self.ids),
        )

    def run(self, operation: Operation[T]) -> T:
        """Carry ``operation`` out."""
        resumed: Any = None
        while True:
            try:
                effect = operation.send(resumed)
            except StopIteration as done:
                result: T = done.value
                return result
            resumed = None
            if isinstance(effect, Send):
                resumed = self._react(effect)
            elif isinstance(effect, Read):
                chunks = effect.stream
                assert isinstance(chunks, list)
                resumed = chunks.pop(0) if chunks else b""
            elif isinstance(effect, Sleep):
                assert effect.seconds >= 0
                self.slept.append(effect.seconds)
                self.sleep(effect.seconds)
            elif isinstance(effect, Work):
                resumed = effect.function()
            elif isinstance(effect, Ask):
                try:
                    resumed = effect.call()
                except AskFailed as failure:
                    resumed = failure
            elif isinstance(effect, Emit):
                self.emitted.append(effect.item)

    def sleep(self, seconds: float) -> None:
        """Let a sleep that was asked for pass."""
        self.now += seconds

    def _react(self, send: Send) -> Result | SourceFailed:
        assert send.timeout > 0
        self.sent.append(send)
        self.times.append(self.now)
        assert self.script, f"not in the script: {send.method} {send.url}"
        entry = self.script.pop(0)
        seconds, reaction = entry if isinstance(entry, tuple) else (0.0, entry)
        if isinstance(reaction, Lost) and not reaction.sent:
            self.bodies.append(None)
        else:
            try:
                self.bodies.append(_taken(send))
            except SourceFailed as failure:
                return failure
        self.now += min(seconds, send.timeout)
        return reaction(send) if callable(reaction) else reaction

    @property
    def targets(self) -> list[str]:
        """Where each request went: its address without the path."""
        return [send.url.split("/v1/")[0] for send in self.sent]

    def header(self, name: str) -> list[str | None]:
        """A header of each request."""
        return [send.headers.get(name) for send in self.sent]


def _taken(send: Send) -> bytes | None:
    if send.body is None:
        return None
    content = send.body.begin()
    if isinstance(content, bytes):
        return content
    assert not hasattr(content, "__anext__")
    return b"".join(content)


def answer(document: Mapping[str, Any] | None = None, status: int = 200, **headers: str) -> Answer:
    """A JSON answer of the service; underscores in header names stand for hyphens."""
    named = {"milepost-term": "3"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, b"" if document is None else json.dumps(document).encode())


def strange(answer: Answer) -> Answer:
    """The same, from something that is not the service."""
    headers = {name: value for name, value in answer.headers.items() if name != "milepost-term"}
    return replace(answer, headers=headers)


def problem(code: Code, *, retry_after: float | None = None, outcome: Outcome | None = None, **extras: Any) -> Answer:
    """The problem document that the service answers for ``code``."""
    kind = PROBLEMS[code]
    document = {
        "type": PROBLEM_TYPE_PREFIX + code.value,
        "title": kind.title,
        "status": kind.status,
        "detail": "as scripted",
        "retryable": kind.retryable,
        "outcome": (outcome or kind.outcome).value,
        **extras,
    }
    headers = {"content-type": PROBLEM_MEDIA_TYPE, "milepost-term": "3"}
    if retry_after is not None:
        headers["retry-after"] = str(retry_after)
    return Answer(kind.status, headers, json.dumps(document).encode())


def to_leader(leader: str) -> Callable[[Send], Answer]:
    """A follower's answer: 307 to ``leader``, path and query kept."""

    def redirect(send: Send) -> Answer:
        return answer(status=307, location=leader + "/v1/" + send.url.split("/v1/", 1)[1])

    return redirect


CUT = Lost("the connection was cut", sent=True)
BROKEN = Lost("the connection broke under the bytes", sent=False)
SILENT = Lost("no answer", sent=True, timed_out=True)
REFUSED = Lost("connection refused", sent=False, unreachable=True)
NO_LEADER = problem(Code.NO_LEADER)

RECORD: dict[str, Any] = {
    "name": "latest",
    "version": "abc.7",
    "size": 5,
    "sha256": "5d41402abc4b2a76b9719d911017c592" * 2,
    "created": "2026-03-01T10:00:00Z",
    "updated": "2026-03-01T10:00:01.25Z",
    "labels": {"batch": "7"},
    "locks": ["s1"],
    "epoch": 3,
    "removing": False,
}

READ: Request[Any] = Request("GET", "/v1/stores/s/handles?limit=5&token=a%2Fb")
CHANGE: Request[Any] = Request("DELETE", "/v1/stores/s/locks", headers={"Milepost-Session": "s1"})
OK = answer({})
NOT_THERE = answer(status=404)
"""What the service answers to a HEAD for a handle that it does not have."""


def adding(state: object = b"state") -> Request[Any]:
    """Make a request that adds a handle with these bytes."""
    return Request("POST", "/v1/stores/s/handles/h", headers={"Milepost-Session": "s1"}, body=body_of(state))


def call(world: World, request: Request[Any], timeout: float = 30.0) -> Reply[Any]:
    """Carry a request out to its end, with all its attempts."""
    return world.run(world.caller.call(request, timeout=timeout))

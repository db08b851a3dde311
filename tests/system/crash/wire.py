"""Requests that are repeated until they have an answer, as a client does whose server keeps dying."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

import httpx

from milepost.wire import Header

ANSWER_SECONDS = 180.0
_CALL_SECONDS = 20.0


@dataclass(frozen=True)
class Act:
    """One changing request under its idempotency key."""

    method: str
    path: str
    key: str
    headers: dict[str, str]
    body: bytes | None = None


@dataclass
class Tally:
    """What happened to one client's requests."""

    answered: int = 0
    repeated: int = 0
    replayed: int = 0
    unknown: int = 0
    """Answers that an earlier attempt may have been applied, its own answer being pushed out by many others."""
    cut: int = 0
    """Requests whose connection broke before their answer."""


def is_unknown(answer: httpx.Response) -> bool:
    """Whether the answer is that nobody can tell any more whether the request was applied."""
    return answer.status_code == 503 and answer.json()["type"] == "urn:milepost:outcome-unknown"


@dataclass
class Wire:
    """One client's connection. Terms and revisions that go back are a failure, whichever replica led meanwhile."""

    http: httpx.Client
    random: random.Random
    tally: Tally = field(default_factory=Tally)
    crashed: bool = False
    """Whether a connection broke since the client last looked."""
    _term: int = 0
    _revision: int = 0

    def act(self, act: Act) -> httpx.Response:
        """The answer after which a client does not try again."""
        end, attempt = time.monotonic() + ANSWER_SECONDS, 0
        while True:
            attempt += 1
            headers = {**act.headers, Header.IDEMPOTENCY_KEY: act.key, Header.ATTEMPT: str(attempt)}
            answer = self._once(act.method, act.path, headers, act.body)
            if answer is not None:
                self.tally.answered += 1
                self.tally.repeated += attempt > 1
                self.tally.replayed += answer.headers.get(Header.REPLAYED) == "true"
                self.tally.unknown += is_unknown(answer)
                return answer
            assert time.monotonic() < end, f"no answer to {act.method} {act.path} in {attempt} attempts"

    def get(self, path: str) -> httpx.Response:
        """The answer to a reading request."""
        end = time.monotonic() + ANSWER_SECONDS
        while (answer := self._once("GET", path, {}, None)) is None:
            assert time.monotonic() < end, f"no answer to GET {path}"
        return answer

    def _once(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> httpx.Response | None:
        try:
            answer = self.http.request(method, path, headers=headers, content=body, timeout=_CALL_SECONDS)
        except httpx.TransportError as error:
            self.crashed = True
            self.tally.cut += not isinstance(error, httpx.ConnectError)
            time.sleep(self.random.uniform(0.05, 0.2))
            return None
        if answer.status_code == 503 and answer.json()["retryable"]:
            time.sleep(self.random.uniform(0.01, 0.05))
            return None
        self._looks_forward(answer)
        return answer

    def _looks_forward(self, answer: httpx.Response) -> None:
        term = int(answer.headers[Header.TERM])
        assert term >= self._term, f"term {term} after {self._term}"
        self._term = term
        if (revision := answer.headers.get(Header.REVISION)) is not None:
            assert int(revision) >= self._revision, f"revision {revision} after {self._revision}"
            self._revision = int(revision)

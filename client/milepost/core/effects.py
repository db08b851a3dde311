"""What an operation may ask of its driver, and what it gets back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from milepost.core.body import Body

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """Send one request and wait at most ``timeout`` seconds for the answer.

    Resumed with an `Answer`, `Lost` or `SourceFailed`.

    With ``stream`` the body of a 2xx answer is left on the connection: `Answer.stream` stands for it in `Read`, and
    ``timeout`` also bounds each pause between its bytes. A driver keeps at most one stream per operation open, and
    ends it with the operation.

    ``signed``: the URL is a secret, and the headers are all that may go with it. ``connect``: how many seconds of
    ``timeout`` may pass until there is a connection; None: as many as the driver gives.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: Body | None
    timeout: float
    stream: bool = False
    signed: bool = False
    connect: float | None = None


@dataclass(frozen=True)
class Read:
    """The next bytes of an open stream. Resumed with bytes (empty: the end) or `Lost`."""

    stream: object


@dataclass(frozen=True)
class Sleep:
    """Wait for some seconds. Resumed with None."""

    seconds: float


@dataclass(frozen=True)
class Work:
    """Run a function that blocks: it reads a file, it hashes. Resumed with its result; what it raises ends all."""

    function: Callable[[], Any]


@dataclass(frozen=True)
class Emit:
    """Hand one item to whoever iterates over the operation. Resumed with None."""

    item: Any


Effect = Send | Read | Sleep | Work | Emit
Operation = Generator[Effect, Any, T]


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    stream: object = None


@dataclass(frozen=True)
class Lost:
    """There was no answer. ``sent``: the whole request may have reached a replica, which may act on it yet.

    ``unreachable``: it is not the request that was lost, there was nobody to send it to.
    """

    reason: str
    sent: bool
    timed_out: bool = False
    unreachable: bool = False

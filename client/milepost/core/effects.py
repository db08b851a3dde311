"""The effects: what an operation asks its driver to do, and what it gets back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar

from milepost.core.body import Body

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """Ask the driver to send one request and to wait at most ``timeout`` seconds for the answer.

    The operation is resumed with an `Answer`, `Lost` or `SourceFailed`.

    With ``stream`` the body of a 2xx answer stays on the connection: `Answer.stream` names it in a later `Read`, and
    ``timeout`` also bounds each pause between its bytes. A driver keeps at most one stream open for each operation, and
    ends it with the operation.

    ``signed`` marks a URL that is a secret; the request then carries the given headers and no others. ``connect`` is
    how many seconds of ``timeout`` making the connection may take; None leaves that to the driver.
    """

    method: str
    url: str = field(repr=False)  # it and the headers may hold secrets
    headers: Mapping[str, str] = field(repr=False)
    body: Body | None
    timeout: float
    stream: bool = False
    signed: bool = False
    connect: float | None = None


@dataclass(frozen=True)
class Read:
    """Ask the driver for the next bytes of an open stream. The operation is resumed with bytes (empty at the end) or
    `Lost`.

    ``timeout`` bounds the wait in seconds; the one of the request bounds it as well.
    """

    stream: object
    timeout: float = inf


@dataclass(frozen=True)
class Sleep:
    """Ask the driver to wait for some seconds. The operation is resumed with None."""

    seconds: float


@dataclass(frozen=True)
class Work:
    """Ask the driver to run a function that blocks, for example because it reads or hashes a file.

    The operation is resumed with the function's result; an exception of the function ends the operation.
    """

    function: Callable[[], Any]


@dataclass(frozen=True)
class Ask:
    """Ask the driver to `call` a function of the caller's. The result of one that is ``awaited`` has to be awaited.

    The operation is resumed with the function's result, or with the `AskFailed` that was raised.
    """

    function: Callable[[], Any]

    @property
    def awaited(self) -> bool:
        """Return whether this is a coroutine function."""
        return is_coroutine_function(self.function)

    def call(self) -> Any:
        """Call the function, or make the coroutine that does. Raises `AskFailed`, and so does the coroutine."""
        return self._awaited() if self.awaited else self._called()

    def _called(self) -> Any:
        try:
            return self.function()
        except Exception as error:
            raise AskFailed(error) from error

    async def _awaited(self) -> Any:
        try:
            return await self.function()
        except Exception as error:
            raise AskFailed(error) from error


class AskFailed(Exception):
    """The function that an `Ask` named raised ``error``."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def is_coroutine_function(function: object) -> bool:
    """Return whether calling ``function`` gives a coroutine; an object with such a ``__call__`` counts too."""
    if not callable(function):
        return False
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


@dataclass(frozen=True)
class Emit:
    """Hand one item to the code that iterates over the operation. The operation is resumed with None."""

    item: Any


Effect = Send | Read | Sleep | Work | Ask | Emit
Operation = Generator[Effect, Any, T]


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; header names are lower-case. ``via`` names the proxy that it came by, in words."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    stream: object = None
    via: str = ""


@dataclass(frozen=True)
class Lost:
    """The request got no answer.

    ``sent`` says that the whole request may have reached a replica, which may still act on it. ``unreachable`` says
    that no connection could be made, so that there was nobody to send the request to, and ``untrusted`` that the two
    sides cannot agree on TLS as they are set up, as where one does not trust the other's certificate.
    """

    reason: str
    sent: bool
    timed_out: bool = False
    unreachable: bool = False
    untrusted: bool = False

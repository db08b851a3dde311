"""The effects: what an operation asks its driver to do, such as to send a request; and the results with which the
driver resumes the operation.
"""

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
    the part of ``timeout``, in seconds, that making the connection may take; None leaves that to the driver.
    """

    method: str
    url: str = field(repr=False)  # the URL and the headers may contain secrets
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

    ``timeout`` bounds the wait in seconds; the timeout of the request bounds it as well.
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
    """Ask the driver to call a function that the caller gave, such as one that returns the token. If ``awaited``, the
    function returns a coroutine, which the driver awaits.

    The operation is resumed with the function's result, or with the `AskFailed` that was raised.
    """

    function: Callable[[], Any]

    @property
    def awaited(self) -> bool:
        """Return whether the function is a coroutine function, so that the result of `call` must be awaited."""
        return is_coroutine_function(self.function)

    def call(self) -> Any:
        """Call the function, or return the coroutine that calls it. The call and the coroutine raise `AskFailed`."""
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
    """Return whether ``function`` is a coroutine function, or an object whose ``__call__`` is one."""
    if not callable(function):
        return False
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


@dataclass(frozen=True)
class Emit:
    """Hand one item, such as a chunk or an entry of a list, to the code that iterates over the operation. The operation
    is resumed with None.
    """

    item: Any


Effect = Send | Read | Sleep | Work | Ask | Emit
Operation = Generator[Effect, Any, T]


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; header names are lower-case. ``stream`` names the open stream of the body, if `Send` asked for
    one. ``via`` describes in words the proxy that forwarded the answer; empty without one.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    stream: object = None
    via: str = ""


@dataclass(frozen=True)
class Lost:
    """The request got no answer.

    ``sent`` says that the whole request may have reached a replica, which may still act on it. ``unreachable`` says
    that no connection could be made, so the request was sent to no replica. ``untrusted`` says that the two sides
    cannot agree on TLS with their present settings, for example because one does not trust the other's certificate.
    """

    reason: str
    sent: bool
    timed_out: bool = False
    unreachable: bool = False
    untrusted: bool = False

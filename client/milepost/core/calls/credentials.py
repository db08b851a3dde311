"""The bearer token of a call: a fixed one, or a function that is called before each attempt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from milepost.core.effects import Ask, AskFailed, Operation, is_coroutine_function
from milepost.errors import AccessDenied, Problem
from milepost.wire import Code

Token = str | Callable[[], str]
"""A bearer token, or a function that returns one and is called before each attempt."""

AsyncToken = Token | Callable[[], Awaitable[str]]
"""A bearer token, or a plain or coroutine function that returns one and is called before each attempt; for
`milepost.aio`.
"""


class Credentials:
    """The credentials by which the service identifies the caller."""

    def __init__(self, token: AsyncToken | None) -> None:
        self._token = checked_token(token) if isinstance(token, str) else token

    def __repr__(self) -> str:
        kind = "none" if self._token is None else "a function" if callable(self._token) else "a token"
        return f"<Credentials: {kind}>"

    def may_have_changed(self, problem: Problem) -> bool:
        """Return whether a retry may succeed with a new token: the caller gave a function, and the service refused its
        token with 401.
        """
        return callable(self._token) and problem.code is Code.UNAUTHENTICATED

    def headers(self) -> Operation[dict[str, str]]:
        """Return the header with the bearer token; an empty dict without a token.

        Raises `AccessDenied` if the caller's token function fails. The error omits the text of the function's error,
        which may contain a secret.
        """
        if self._token is None:
            return {}
        token = self._token if isinstance(self._token, str) else (yield from _asked(self._token))
        return {"Authorization": f"Bearer {token}"}


def _asked(function: Callable[[], str] | Callable[[], Awaitable[str]]) -> Operation[str]:
    result = yield Ask(function)
    error = result.error if isinstance(result, AskFailed) else None
    if error is None:
        try:
            return checked_token(result)
        except (TypeError, ValueError) as unusable:
            error = unusable
    raise AccessDenied(
        Code.UNAUTHENTICATED, f"the function that returns the token failed: {type(error).__name__}"
    ) from error


def checked_token(token: object) -> str:
    """Return ``token`` if a header can contain it. Raises TypeError or ValueError otherwise; the error does not quote
    the token.
    """
    if not isinstance(token, str):
        raise TypeError(f"a token is a str, not {type(token).__name__}")
    if not token.isascii() or not token.isprintable() or not token.strip():
        raise ValueError("a token must be printable ASCII")
    return token


def refuse_coroutine_function(token: object) -> None:
    """Raise TypeError for a coroutine function: a blocking client cannot await it."""
    if is_coroutine_function(token):
        raise TypeError("a coroutine function returns tokens to milepost.aio only; a Client takes a plain function")

"""The short ways of requests, which are answered in front of the parser: calls of handles, and requests for files."""

from __future__ import annotations

from typing import Final

from milepost_server.http.calls.short_way import CallsShortWay
from milepost_server.http.connection.short_exchange import Answered, Common
from milepost_server.http.requests import Context
from milepost_server.http.webhdfs.short_way import ShortWay

_CALLS: Final = b" /v1/stores/"
_LONGEST_METHOD: Final = len(b"DELETE")


class ShortWays:
    """Answers requests on their short way. The answers are counted and logged like any other."""

    def __init__(self, context: Context) -> None:
        self._calls = CallsShortWay(context)
        self._files = ShortWay(context)

    def answer(self, data: bytes, common: Common) -> Answered:
        """Return the answer to a request. ``data`` is all that came from the client, after complete requests."""
        is_call = data.find(_CALLS, 0, _LONGEST_METHOD + len(_CALLS)) >= 0
        return self._calls.answer(data, common) if is_call else self._files.answer(data, common)

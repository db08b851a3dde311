"""The short ways of requests, which are answered in front of the parser: calls of handles, and requests for files."""

from __future__ import annotations

import logging
from typing import Final

from milepost.errors import Problem
from milepost_server.http.calls.short_way import CallsShortWay
from milepost_server.http.calls.usual import Unusual
from milepost_server.http.connection.short_exchange import Answered, Common
from milepost_server.http.requests import Context
from milepost_server.http.webhdfs.short_way import ShortWay

log = logging.getLogger("milepost.http")

_CALLS: Final = b" /v1/stores/"
_LONGEST_METHOD: Final = len(b"DELETE")


class ShortWays:
    """Answers requests on their short way. The answers are counted and logged like any other."""

    def __init__(self, context: Context) -> None:
        self._certified_only = context.certified_only
        self._calls = CallsShortWay(context)
        self._files = ShortWay(context)

    def answer(self, data: bytes, common: Common) -> Answered:
        """Return the answer to a request. ``data`` is all that came from the client, after complete requests."""
        if self._certified_only:
            return None
        is_call = data.find(_CALLS, 0, _LONGEST_METHOD + len(_CALLS)) >= 0
        try:
            return self._calls.answer(data, common) if is_call else self._files.answer(data, common)
        except (Unusual, Problem):
            return None
        except Exception:  # nothing has begun yet, so the request is read as every other one is
            log.exception("the short way failed for a request, which goes the long way")
            return None

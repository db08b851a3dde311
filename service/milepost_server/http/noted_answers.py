"""What the answers of all short ways share: the fields that each begins with, and that each is counted and logged."""

from __future__ import annotations

from starlette.responses import Response

from milepost_server.http.connection.exchange import head
from milepost_server.http.connection.short_exchange import Common, Finished
from milepost_server.http.requests import Context


class NotedAnswers:
    """Makes answers, and counts and logs them like those of the routes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._journal = context.journal
        self._common: Common = ()
        self._lines = b""

    def _beginning(self, common: Common) -> bytes:
        """Return the lines of the fields that each answer begins with, which change once a second."""
        if common is not self._common:
            self._common, self._lines = common, b"".join(b"%b: %b\r\n" % field for field in common)
        return self._lines

    def _note(self, method: str, path: str, status: int, caller: str, began: float, request_id: str) -> None:
        """Count and log the answer to a request that came at the monotonic time ``began``."""
        context, seconds = self._context, self._context.clock() - began
        context.metrics.note(method, status, seconds)
        if context.access is not None:
            context.access.note(method, path, status, seconds, request_id, caller)

    @staticmethod
    def _finished(response: Response, common: Common, further: Common, kept: Common = ()) -> Finished:
        """Return the answer in a response, with the fields ``common`` before those of the response, and ``further``
        behind them. ``kept`` are said too if the connection stays open.
        """
        closes = any(name == b"connection" for name, _ in response.raw_headers)
        fields = [*common, *response.raw_headers, *(() if closes else kept), *further]
        return Finished(head(response.status_code, fields) + bytes(response.body), not closes)

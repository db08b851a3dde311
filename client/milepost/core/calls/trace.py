"""The trace of a call: each attempt of the call has its own request id, which the client and the service log."""

from __future__ import annotations

import logging
import re
import uuid
from typing import Any

from milepost.core.calls.judgement import Again, Done, Refused
from milepost.core.calls.request import Request
from milepost.core.clock import Clock
from milepost.core.effects import Answer, Lost
from milepost.wire import Header

log = logging.getLogger("milepost.calls")

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}\Z")


class Trace:
    """The attempts of one call. The id of an attempt is that of the call followed by ``-1``, ``-2`` and so on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._call = uuid.uuid4().hex[:16]
        self._attempt = 0
        self._id = ""
        self._began = 0.0

    def header(self) -> dict[str, str]:
        """Begin another attempt, and return the header that carries the attempt's request id."""
        self._attempt += 1
        self._began = self._clock()
        self._id = f"{self._call}-{self._attempt}"
        return {Header.REQUEST_ID: self._id}

    def ended(
        self, address: str, request: Request[Any], result: Answer | Lost, verdict: Done | Refused | Again | None
    ) -> None:
        """Log the result of an attempt, and set the attempt's request id on the error in ``verdict``, if there is one.

        The log omits the query of the request, which may contain secrets.
        """
        request_id = self._id if isinstance(result, Lost) else request_id_of(result) or self._id
        if isinstance(verdict, Again):
            verdict.error.request_id = request_id
        elif isinstance(verdict, Refused):
            verdict.problem.request_id = request_id
        if log.isEnabledFor(logging.DEBUG):
            log.debug(
                "%s %s at %s: %s, %.0f ms, attempt %d, request %s",
                request.method,
                request.path.partition("?")[0],
                address,
                f"status {result.status}" if isinstance(result, Answer) else "no answer",
                1000 * (self._clock() - self._began),
                self._attempt,
                request_id,
            )


def request_id_of(answer: Answer) -> str | None:
    """Return the request id in an answer, under which the service logged the request; None if there is none. It differs
    from the sent one if a proxy replaced it.
    """
    found = answer.headers.get(Header.REQUEST_ID.lower(), "")
    return found if _REQUEST_ID.match(found) else None

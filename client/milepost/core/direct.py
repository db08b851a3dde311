"""Bytes that go straight to or from where the service keeps them, by a URL that it signs."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from milepost.core.body import Body
from milepost.core.clock import Clock
from milepost.core.effects import Lost, Send
from milepost.core.urls import http_url

log = logging.getLogger("milepost")

DIRECT_ABOVE = 1024 * 1024
AVOID_SECONDS = 600.0
AVOID_BRIEFLY_SECONDS = 60.0  # where it may well pass by itself
ATTEMPT_TIMEOUT = 10.0  # of one request to the blob store, beside the time for its bytes
CONNECT_SECONDS = 2.0  # who sits behind a wall is to have time left for the way through the service
TELLING_CONNECT_SECONDS = 1.0  # in less than that, a busy network may have lost no more than one packet
SLOWEST_BYTES_PER_SECOND = 1024 * 1024


class Direct:
    """Whether states go that way: those above ``above`` bytes (None: never), unless it was found closed lately.

    Shared between threads: whatever changes is one reference.
    """

    def __init__(self, above: int | None, clock: Clock) -> None:
        if above is not None and above < 0:
            raise ValueError("direct_above is a number of bytes, or None")
        self.above = above
        self.signs = False  # whether the service was seen to sign
        self._clock = clock
        self._avoided_until = -math.inf
        self._unannounced = (0, -math.inf)  # from which size on, and until when

    @property
    def open(self) -> bool:
        """Whether the direct way may be tried."""
        return self.above is not None and self._clock() >= self._avoided_until

    def suits(self, size: int) -> bool:
        """Whether a state of ``size`` bytes is to go that way."""
        return self.above is not None and size > self.above and self.open

    def suits_body(self, body: Body) -> bool:
        """The same for a state that is to be written: it is read once for its digest and once to be sent."""
        if body.size is None or body.sha256 is None or body.once:
            return False
        size, until = self._unannounced
        return self.suits(body.size) and not (body.size >= size and self._clock() < until)

    def avoid(self, why: str, level: int = logging.WARNING, seconds: float = AVOID_SECONDS) -> None:
        """Send bytes through the service for the next ``seconds``. ``why`` must not quote a signed URL."""
        if self.open:
            self._avoided_until = self._clock() + seconds
            log.log(level, "states go through the service for the next %g minutes: %s", seconds / 60, why)

    def avoid_announcing(self, size: int, seconds: float, why: str) -> None:
        """Announce no states of ``size`` bytes and more for the next ``seconds``. Smaller ones, and reading, go on."""
        self._unannounced = (size, self._clock() + seconds)
        log.debug("no states of %d bytes and more are announced for the next %g s: %s", size, seconds, why)

    def worth_another_try(self, send: Send, lost: Lost, took: float) -> bool:
        """What ``lost`` says of the way after ``took`` seconds is remembered; whether ``send`` is to be sent once more.

        A connection that breaks says nothing, and a wait that was cut short by the caller's own deadline as little.
        """
        if lost.unreachable:
            limit = send.connect or send.timeout
            if took < limit or limit >= TELLING_CONNECT_SECONDS:
                self.avoid(f"the blob store cannot be reached from here: {lost.reason}")
            return False
        if not lost.timed_out:
            return took < send.timeout
        if send.timeout >= _enough(send.body):
            self.avoid(f"the blob store does not answer: {lost.reason}")
        elif send.timeout >= ATTEMPT_TIMEOUT:
            self.avoid(f"the blob store did not answer in time: {lost.reason}", seconds=AVOID_BRIEFLY_SECONDS)
        return False


def trouble_with(url: str, secure: bool) -> str | None:
    """Why a signed URL cannot be used, without quoting it; None if it can. ``secure``: only by https."""
    parts = http_url(url)
    if parts is None or parts.username:
        return "the service signed what is no http or https URL"
    if secure and not url.startswith("https:"):
        return "the service is spoken to by https and signed a URL of http"
    return None


def signed(method: str, url: str, headers: Mapping[str, str], body: Body | None, left: float) -> Send:
    """A request that is already signed, so with exactly these headers. ``left`` (seconds) is what it may take at most.

    A driver never lets the URL be logged: whoever has it may send the request, too.
    """
    return Send(
        method=method,
        url=url,
        headers=headers,
        body=body,
        timeout=min(left, _enough(body)),
        stream=body is None,
        signed=True,
        connect=min(CONNECT_SECONDS, left / 4),
    )


def _enough(body: Body | None) -> float:
    """Seconds within which a blob store that can be reached has answered."""
    size = 0 if body is None or body.size is None else body.size
    return ATTEMPT_TIMEOUT + size / SLOWEST_BYTES_PER_SECOND

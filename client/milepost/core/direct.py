"""Bytes that go straight to or from where the service keeps them, by a URL that it signs."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from urllib.parse import urlsplit

from milepost.core.body import Body
from milepost.core.clock import Clock
from milepost.core.effects import Send

log = logging.getLogger("milepost")

DIRECT_ABOVE = 1024 * 1024
AVOID_SECONDS = 600.0
PATIENCE = 10.0  # of one request to the blob store, beside the time for its bytes
CONNECT_SECONDS = 2.0  # who sits behind a wall is to have time left for the way through the service
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

    @property
    def open(self) -> bool:
        """Whether the direct way may be tried."""
        return self.above is not None and self._clock() >= self._avoided_until

    def suits(self, size: int) -> bool:
        """Whether a state of ``size`` bytes is to go that way."""
        return self.above is not None and size > self.above and self.open

    def suits_body(self, body: Body) -> bool:
        """The same for a state that is to be written: it is read once for its digest and once to be sent."""
        return body.size is not None and body.sha256 is not None and not body.once and self.suits(body.size)

    def avoid(self, why: str, level: int = logging.WARNING) -> None:
        """Send bytes through the service for the next ten minutes. ``why`` must not quote a signed URL."""
        if self.open:
            self._avoided_until = self._clock() + AVOID_SECONDS
            log.log(level, "states go through the service for the next %g minutes: %s", AVOID_SECONDS / 60, why)


def trouble_with(url: str, secure: bool) -> str | None:
    """Why a signed URL cannot be used, without quoting it; None if it can. ``secure``: only by https."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
    except ValueError:
        usable = False
    if not usable:
        return "the service signed what is no http or https URL"
    if secure and not url.startswith("https:"):
        return "the service is spoken to by https and signed a URL of http"
    return None


def signed(method: str, url: str, headers: Mapping[str, str], body: Body | None, left: float) -> Send:
    """A request that is already signed, so with exactly these headers. ``left`` (seconds) is what it may take at most.

    A driver never lets the URL be logged: whoever has it may send the request, too.
    """
    size = 0 if body is None or body.size is None else body.size
    return Send(
        method=method,
        url=url,
        headers=headers,
        body=body,
        timeout=min(left, PATIENCE + size / SLOWEST_BYTES_PER_SECOND),
        stream=body is None,
        signed=True,
        connect=min(CONNECT_SECONDS, left / 4),
    )

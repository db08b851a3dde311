"""Direct transfer: bytes go straight to or from the blob store, by a URL that the service signs."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from urllib.parse import urlsplit

from milepost.core.body import Body
from milepost.core.calls.replicas import http_url
from milepost.core.clock import Clock
from milepost.core.effects import Answer, Lost, Send

log = logging.getLogger("milepost.transfers")

DIRECT_ABOVE = 1024 * 1024
AVOID_SECONDS = 600.0
AVOID_BRIEFLY_SECONDS = 60.0  # seconds without direct transfer after an error that will probably end by itself
ATTEMPT_TIMEOUT = 10.0  # seconds of one request to the blob store, beside the time for its bytes
CONNECT_SECONDS = 2.0  # short: if a firewall blocks the blob store, time must remain for the way through the service
TELLING_CONNECT_SECONDS = 1.0  # a shorter failed wait does not prove a firewall: the network may have lost one packet
SLOWEST_BYTES_PER_SECOND = 1024 * 1024


class Direct:
    """Decides whether a state is transferred directly: if it has more than ``above`` bytes (None: never), unless a
    recent attempt showed that this process cannot use the blob store.

    Threads share this object: every change replaces one reference.
    """

    def __init__(self, above: int | None, clock: Clock) -> None:
        if above is not None and above < 0:
            raise ValueError("direct_above is a number of bytes, or None")
        self.above = above
        self.signs = False  # whether the service has signed a URL for this client before
        self._clock = clock
        self._avoided_until = -math.inf
        self._unannounced = (0, -math.inf)  # no upload of this many bytes or more is announced before this time

    @property
    def open(self) -> bool:
        """Return whether direct transfer is enabled and not suspended by `avoid`."""
        return self.above is not None and self._clock() >= self._avoided_until

    def suits(self, size: int) -> bool:
        """Return whether a state of ``size`` bytes should be transferred directly."""
        return self.above is not None and size > self.above and self.open

    def suits_body(self, body: Body) -> bool:
        """Return whether the state in ``body`` should be uploaded directly. Its source must be readable twice: once to
        compute the digest, once to send the bytes.
        """
        if body.size is None or body.sha256 is None or body.once:
            return False
        size, until = self._unannounced
        return self.suits(body.size) and not (body.size >= size and self._clock() < until)

    def avoid(self, why: str, level: int = logging.WARNING, seconds: float = AVOID_SECONDS) -> None:
        """Send all states through the service for the next ``seconds``. ``why`` is logged, so it must not quote a
        signed URL.
        """
        if self.open:
            self._avoided_until = self._clock() + seconds
            log.log(
                level,
                "direct transfer is off: states go through the service for the next %g minutes: %s",
                seconds / 60,
                why,
            )

    def avoid_announcing(self, size: int, seconds: float, why: str) -> None:
        """Send states of ``size`` bytes or more through the service for the next ``seconds``, without asking it first
        to sign an upload. Smaller uploads and all downloads stay direct. ``why`` is logged.
        """
        self._unannounced = (size, self._clock() + seconds)
        log.debug("direct upload is off for states of %d bytes and more for the next %g s: %s", size, seconds, why)

    def worth_another_try(self, send: Send, lost: Lost, took: float) -> bool:
        """Return whether to repeat a direct request that got no answer after ``took`` seconds. Suspends direct transfer
        if the blob store seems to be unreachable.

        Direct transfer stays enabled after a broken connection, and after a wait that the caller's own deadline cut
        short: neither shows a fault of the blob store.
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
    """Return the reason why a signed URL cannot be used, in words that do not quote the URL; None if it can be used.
    With ``secure``, an http URL cannot be used, because the client reaches the service by https.
    """
    parts = http_url(url)
    if parts is None or parts.username:
        return "what the service signed is no http or https URL without credentials"
    if secure and not url.startswith("https:"):
        return "the client uses https, but the service signed an http URL"
    return None


def signed(method: str, url: str, headers: Mapping[str, str], body: Body | None, left: float) -> Send:
    """Return the effect that sends a request to a signed URL, with exactly these headers and a timeout of at most
    ``left`` seconds.

    A driver never lets the URL be logged: anyone who reads the URL could send the request, too.
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


def log_signed(send: Send, result: object, seconds: float) -> None:
    """Log how a request for a signed URL ended, without the URL."""
    if log.isEnabledFor(logging.DEBUG):
        ended = f"status {result.status}" if isinstance(result, Answer) else "no answer"
        host = urlsplit(send.url).hostname
        log.debug("%s by a signed URL at %s: %s, %.0f ms", send.method, host, ended, 1000 * seconds)


def _enough(body: Body | None) -> float:
    """Return the seconds that a blob store may take to answer a request with ``body``; if it takes longer, it counts as
    unreachable.
    """
    size = 0 if body is None or body.size is None else body.size
    return ATTEMPT_TIMEOUT + size / SLOWEST_BYTES_PER_SECOND

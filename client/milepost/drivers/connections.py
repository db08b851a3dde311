"""The parts of httpx that both drivers use: settings, requests, and the translation of answers and exceptions."""

from __future__ import annotations

import logging
import re
import ssl
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import httpx

from milepost.core.effects import Answer, Lost, Send
from milepost.wire import Header

CONNECT_SECONDS = 5.0
Verify = ssl.SSLContext | bool

_LOCATION = re.compile(r"(\(b'location', b'[^'?]*)\?[^']*", re.IGNORECASE)

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
"""No limit on connections: a session whose renewal waited for one of a hundred long polls to end would be lost."""

_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)


@dataclass(frozen=True)
class Connections:
    """The settings of the connections to the service and the blob store.

    ``verify`` is that of httpx: False trusts any certificate, an `ssl.SSLContext` decides itself.
    """

    verify: Verify = True

    def settings(self) -> dict[str, Any]:
        """Return the arguments of an httpx client.

        States travel uncompressed: their digests and ranges are those of the plain bytes.
        """
        logging.getLogger("httpcore.http11").addFilter(_without_signature)
        headers = {"User-Agent": f"milepost-python/{version('milepost')}", "Accept-Encoding": "identity"}
        return {"verify": self.verify, "headers": headers, "follow_redirects": False, "limits": _LIMITS}


class Progress:
    """Counts how much of a request's body was sent; ``complete`` is true once its last bytes may be on their way."""

    def __init__(self) -> None:
        self.complete = True  # nothing is known of a body that httpx gets in one piece
        self._left: int | None = None

    def begin(self, size: int | None) -> None:
        """Note that the body is sent in chunks, of ``size`` bytes together if that is known."""
        self._left = size
        self.complete = size == 0

    def next(self, chunk: bytes) -> None:
        """Note that this chunk is being sent."""
        if self._left is not None:
            self._left -= len(chunk)
            self.complete = self._left <= 0

    def end(self) -> None:
        """Note that all chunks were sent; for a body of unknown size its end mark is being sent."""
        self.complete = True


class _Secret(httpx.URL):
    """A URL whose query is a signature: it is sent whole, but httpx logs it without the query."""

    def __str__(self) -> str:
        return super().__str__().partition("?")[0]


def request_of(http: httpx.Client | httpx.AsyncClient, send: Send, content: Any) -> httpx.Request:
    """Make the httpx request for ``send``, with its timeouts. The one for connecting is shorter, to give up soon on a
    host that does not answer at all.

    Raises `httpx.UnsupportedProtocol` for a URL that httpx cannot use.
    """
    connect = CONNECT_SECONDS if send.connect is None else send.connect
    timeout = httpx.Timeout(send.timeout, connect=min(send.timeout, connect))
    try:
        url = httpx.URL(send.url)
        url.host  # noqa: B018 - reading it decodes it
    except (httpx.InvalidURL, UnicodeError) as error:  # UnicodeError: a host name with a broken IDNA encoding
        raise httpx.UnsupportedProtocol("the URL is no address that a request can be sent to") from error
    request = http.build_request(send.method, url, headers=dict(send.headers), content=content, timeout=timeout)
    if send.signed:
        request.url = _Secret(send.url)
    return request


def _without_signature(record: logging.LogRecord) -> bool:
    """Remove the query of a Location, which may be a signature, from what httpcore logs of an answer's headers."""
    record.msg = _LOCATION.sub(r"\1", str(record.msg))
    return True


def answer(response: httpx.Response, body: bytes, stream: object = None) -> Answer:
    """Translate an httpx response into the core's `Answer`."""
    return Answer(response.status_code, dict(response.headers), body, stream)


def is_strange(send: Send, response: httpx.Response) -> bool:
    """Return whether the head of an answer already shows that it is not from the service.

    Then the body is not read, for it may have no end.
    """
    return not send.signed and Header.TERM not in response.headers


def lost(
    error: httpx.TransportError | UnicodeError, send: Send | None = None, progress: Progress | None = None
) -> Lost:
    """Translate an httpx exception into the core's `Lost`. A request that was not sent whole cannot have been acted on.

    A UnicodeError is caused by an answer: httpx decodes the host of every Location, although it does not follow any.
    """
    sent = not isinstance(error, _NOT_SENT) and (progress is None or progress.complete)
    where = "" if send is None else f"{urlsplit(send.url).hostname}:{urlsplit(send.url).port or ''} "
    timed_out = isinstance(error, httpx.TimeoutException) and not isinstance(error, _NOT_SENT)
    # A PoolTimeout is a wait for one of the client's own connections, and says nothing about the other side.
    unreachable = isinstance(error, _NOT_SENT) and not isinstance(error, httpx.PoolTimeout)
    reason = f"{where}{type(error).__name__} {error}".rstrip()
    return Lost(reason, sent=sent, timed_out=timed_out, unreachable=unreachable)


def overdue(send: Send, connected: bool, progress: Progress) -> Lost:
    """Make the `Lost` for an attempt that was given up because its time was over.

    ``connected`` says whether there was a connection to send it over.
    """
    if not connected:
        return Lost(f"no connection within {send.timeout:.3g} s", sent=False)
    return Lost(f"no answer within {send.timeout:.3g} s", sent=progress.complete, timed_out=True)

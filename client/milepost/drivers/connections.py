"""What both drivers need of httpx: settings, and its exceptions translated."""

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
"""As many as there are calls at once: a session that waited for one of a hundred long polls to end would be lost."""

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
    """How connections are made. ``verify``: False trusts any certificate, an `ssl.SSLContext` says it all."""

    verify: Verify = True

    def settings(self) -> dict[str, Any]:
        """The arguments of an httpx client. State travels as it is: digests and ranges are of its own bytes."""
        logging.getLogger("httpcore.http11").addFilter(_without_signature)
        headers = {"User-Agent": f"milepost-python/{version('milepost')}", "Accept-Encoding": "identity"}
        return {"verify": self.verify, "headers": headers, "follow_redirects": False, "limits": _LIMITS}


class Progress:
    """How far the bytes of one request came: ``complete`` once the last of them may be on their way."""

    def __init__(self) -> None:
        self.complete = True  # of a body that is handed over in one piece nobody knows better
        self._left: int | None = None

    def begin(self, size: int | None) -> None:
        """The body goes in chunks, of ``size`` bytes together, if that is known."""
        self._left = size
        self.complete = size == 0

    def next(self, chunk: bytes) -> None:
        """A chunk sets out."""
        if self._left is not None:
            self._left -= len(chunk)
            self.complete = self._left <= 0

    def end(self) -> None:
        """The chunks are used up; for a body of unknown size the mark of its end sets out."""
        self.complete = True


class _Secret(httpx.URL):
    """A URL whose query is a signature: it goes over the wire, and not into httpx's log."""

    def __str__(self) -> str:
        return super().__str__().partition("?")[0]


def request_of(http: httpx.Client | httpx.AsyncClient, send: Send, content: Any) -> httpx.Request:
    """The request for ``send``, with its waits. Who does not even accept a connection is given up sooner.

    Raises `httpx.UnsupportedProtocol` for a URL that httpx makes nothing of.
    """
    connect = CONNECT_SECONDS if send.connect is None else send.connect
    timeout = httpx.Timeout(send.timeout, connect=min(send.timeout, connect))
    try:
        url = httpx.URL(send.url)
        url.host  # noqa: B018 - decoded when it is asked for
    except (httpx.InvalidURL, UnicodeError) as error:  # the latter for a name that says it is encoded, and is not
        raise httpx.UnsupportedProtocol("not an address that a request can be sent to") from error
    request = http.build_request(send.method, url, headers=dict(send.headers), content=content, timeout=timeout)
    if send.signed:
        request.url = _Secret(send.url)
    return request


def _without_signature(record: logging.LogRecord) -> bool:
    """Keeps the query of a Location, which may be a signature, out of what httpcore logs of an answer's headers."""
    record.msg = _LOCATION.sub(r"\1", str(record.msg))
    return True


def answer(response: httpx.Response, body: bytes, stream: object = None) -> Answer:
    """An httpx response in the core's words."""
    return Answer(response.status_code, dict(response.headers), body, stream)


def is_strange(send: Send, response: httpx.Response) -> bool:
    """Whether the head alone shows that the service did not answer. The body is not read then: it may have no end."""
    return not send.signed and Header.TERM not in response.headers


def lost(
    error: httpx.TransportError | UnicodeError, send: Send | None = None, progress: Progress | None = None
) -> Lost:
    """An httpx exception in the core's words. A request that is not complete cannot have been acted on.

    A UnicodeError comes of an answer: httpx decodes the host of every Location, though it is not to follow any.
    """
    sent = not isinstance(error, _NOT_SENT) and (progress is None or progress.complete)
    where = "" if send is None else f"{urlsplit(send.url).hostname}:{urlsplit(send.url).port or ''} "
    timed_out = isinstance(error, httpx.TimeoutException) and not isinstance(error, _NOT_SENT)
    # A wait for one of the client's own connections says nothing of the other side.
    unreachable = isinstance(error, _NOT_SENT) and not isinstance(error, httpx.PoolTimeout)
    reason = f"{where}{type(error).__name__} {error}".rstrip()
    return Lost(reason, sent=sent, timed_out=timed_out, unreachable=unreachable)


def overdue(send: Send, connected: bool, progress: Progress) -> Lost:
    """An attempt that was given up after its time, ``connected`` if there was a connection to send it over."""
    if not connected:
        return Lost(f"no connection within {send.timeout:.3g} s", sent=False)
    return Lost(f"no answer within {send.timeout:.3g} s", sent=progress.complete, timed_out=True)

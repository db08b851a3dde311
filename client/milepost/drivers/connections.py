"""What both drivers need of httpx: settings, and its exceptions translated."""

from __future__ import annotations

import logging
import re
import ssl
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import httpx

from milepost.core.effects import Answer, Lost, Send

CONNECT_SECONDS = 5.0
Verify = ssl.SSLContext | bool

_LOCATION = re.compile(r"(\(b'location', b'[^'?]*)\?[^']*", re.IGNORECASE)

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
        return {"verify": self.verify, "headers": headers, "follow_redirects": False}


class OutOfTime(Exception):
    """The time for one attempt was up while its request was being sent."""


class _Secret(httpx.URL):
    """A URL whose query is a signature: it goes over the wire, and not into httpx's log."""

    def __str__(self) -> str:
        return super().__str__().partition("?")[0]


def request_of(http: httpx.Client | httpx.AsyncClient, send: Send, content: Any) -> httpx.Request:
    """The request for ``send``, with its waits. Who does not even accept a connection is given up sooner."""
    connect = CONNECT_SECONDS if send.connect is None else send.connect
    timeout = httpx.Timeout(send.timeout, connect=min(send.timeout, connect))
    request = http.build_request(send.method, send.url, headers=dict(send.headers), content=content, timeout=timeout)
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


def lost(error: httpx.TransportError, send: Send | None = None) -> Lost:
    """An httpx exception in the core's words."""
    sent = not isinstance(error, _NOT_SENT)
    where = "" if send is None else f"{httpx.URL(send.url).host}:{httpx.URL(send.url).port or ''} "
    timed_out = sent and isinstance(error, httpx.TimeoutException)
    return Lost(f"{where}{type(error).__name__} {error}".rstrip(), sent=sent, timed_out=timed_out)


def overdue(send: Send, sent: bool) -> Lost:
    """An attempt that was given up after its time."""
    return Lost(f"no answer within {send.timeout:.3g} s", sent=sent, timed_out=True)

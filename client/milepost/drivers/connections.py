"""What both HTTP drivers share: the settings of the connections, and the translation of the core's requests to httpx
and of httpx's answers and exceptions to the core.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from os import PathLike, fspath
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from milepost.core.effects import Answer, Lost, Send
from milepost.drivers.network import let_through
from milepost.drivers.proxies import Proxies
from milepost.wire import Header

CONNECT_SECONDS = 5.0
Verify = ssl.SSLContext | bool | str | PathLike[str]
C = TypeVar("C", httpx.Client, httpx.AsyncClient)
_TRANSPORTS: Mapping[type, Any] = {httpx.Client: httpx.HTTPTransport, httpx.AsyncClient: httpx.AsyncHTTPTransport}

_LOCATION = re.compile(r"(\(b'location', b'[^'?]*)\?[^']*", re.IGNORECASE)

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
"""The number of connections has no limit: with one, a session's renewal could wait until a long poll ends, and the
session would be lost. httpx closes those that are idle for five seconds. So a client soon leaves a machine that has
gone, and a replica that no longer leads, where an address leads to one leader after the other.
"""

_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)


_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
"""OpenSSL's codes (``X509_V_ERR``) for a certificate that no trusted authority signed."""

_ALERT = re.compile(
    r"alert[ _](unknown[ _]ca|bad[ _]certificate|unsupported[ _]certificate"
    r"|certificate[ _](required|expired|revoked|unknown)|(handshake[ _]failure|access[ _]denied))",
    re.IGNORECASE,
)
"""The TLS alerts with which a server refuses the client's certificate, or refuses a client without one.
``handshake_failure`` and ``access_denied`` may have other causes.
"""

FOREIGN = (httpx.TransportError, UnicodeError, ssl.SSLError)
"""The exceptions that a request can raise. `ssl.SSLError` is among them because httpx does not translate TLS errors
after the handshake, for example that the server requires a certificate.
"""


@dataclass(frozen=True)
class Connections:
    """The settings of the connections to the service and the blob store.

    ``verify`` says which certificates of the service are trusted: True trusts those of public authorities, a path those
    of the authorities in that file (PEM), and False any. An `ssl.SSLContext` is used unchanged; it may also contain a
    certificate that the client presents.

    ``proxy`` is the URL of a proxy for all requests. ``trust_env`` enables `HTTPS_PROXY` and similar variables, and
    `SSL_CERT_FILE`. ``transport`` is the program's own httpx transport. It sends all requests, so ``verify`` and
    ``proxy`` cannot be given with it, and ``trust_env`` has no effect.
    """

    verify: Verify = True
    proxy: str | None = field(default=None, repr=False)  # the URL may contain a password
    trust_env: bool = True
    transport: httpx.BaseTransport | httpx.AsyncBaseTransport | None = None
    proxies: Proxies = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Load the file of authorities in ``verify``. Raises ValueError for settings that are invalid or exclude each
        other.
        """
        if self.transport is not None and (self.proxy is not None or self.verify is not True):
            raise ValueError("a transport of your own makes its connections itself: give proxy and certificates to it")
        if self.proxy is not None and urlsplit(self.proxy).scheme not in ("http", "https", "socks5", "socks5h"):
            raise ValueError("a proxy is an http, https or socks5 URL")  # the URL may contain a password
        if isinstance(self.verify, (str, PathLike)):
            object.__setattr__(self, "verify", trusting(self.verify))
        trust_env = self.trust_env and self.transport is None
        object.__setattr__(self, "proxies", Proxies(self.proxy, trust_env))

    def client(self, kind: type[C]) -> C:
        """Make an httpx client with these settings.

        The client asks for uncompressed answers, because the digests and ranges of states apply to the uncompressed
        bytes.
        """
        logging.getLogger("httpcore.http11").addFilter(_without_signature)
        headers = {"User-Agent": f"milepost-python/{version('milepost')}", "Accept-Encoding": "identity"}
        common: dict[str, Any] = {"headers": headers, "trust_env": False, "follow_redirects": False}
        if self.transport is not None:
            return kind(**{**common, "transport": self.transport})
        made: dict[str, Any] = {"verify": self._context(), "limits": _LIMITS}
        http = kind(**made, **common)
        transport = _TRANSPORTS[kind]
        ways = {proxy: transport(proxy=httpx.Proxy(proxy.url), **made) for proxy in self.proxies.all()}
        let_through(http, ways, self.proxies.of)
        return http

    def _context(self) -> ssl.SSLContext:
        if self.verify is not True:
            verify: Any = self.verify
            return httpx.create_ssl_context(verify)
        file = os.environ.get("SSL_CERT_FILE") if self.trust_env else None
        try:
            found = None if file is None else os.stat(file)
        except OSError:
            found = None  # httpx raises what there is to say
        state = () if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)
        return _by_default(self.trust_env, (file, os.environ.get("SSL_CERT_DIR"), *state))

    def via(self, url: str) -> str:
        """Describe the proxy of a request to ``url`` in words; "" if there is none."""
        try:
            proxy = self.proxies.of(httpx.URL(url))
        except (httpx.InvalidURL, UnicodeError):
            return ""  # httpx cannot parse this URL, so it sends no request to it, by a proxy or without one
        return "" if proxy is None else str(proxy)


@lru_cache(maxsize=2)
def _by_default(trust_env: bool, _: tuple[object, ...]) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities of the environment, or public ones. Clients share it while the
    environment and its file stay as they are: loading all authorities takes longer than all else that makes a client.
    """
    return httpx.create_ssl_context(trust_env=trust_env)


def trusting(
    ca: str | PathLike[str] | None, cert: str | PathLike[str] | None = None, key: str | PathLike[str] | None = None
) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities in the file ``ca`` (None: public ones), and presents the
    certificate in the file ``cert``, if given.

    Raises ValueError for a file that cannot be used.
    """
    context = httpx.create_ssl_context() if ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if ca is not None:
            context.load_verify_locations(cafile=ca)
    except OSError as error:  # the errors of the ssl module do not name the file
        raise ValueError(
            f"cannot read authorities of certificates in {fspath(ca or '')}: {_describe(error)}"
        ) from error
    try:
        if cert is not None:
            context.load_cert_chain(cert, key)
    except OSError as error:
        files = " and ".join(fspath(file) for file in (cert, key) if file is not None)
        raise ValueError(f"cannot read the certificate and its key in {files}: {_describe(error)}") from error
    return context


def _describe(error: OSError) -> str:
    return (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or str(error)


class Sent:
    """Counts how much of a request's body was sent; ``complete`` is true once the last bytes may have been sent."""

    def __init__(self) -> None:
        self.complete = True  # httpx does not report the sending of a body that it gets in one piece
        self._left: int | None = None

    def begin(self, size: int | None) -> None:
        """Note that the body is sent in chunks; ``size`` is their total in bytes, if known."""
        self._left = size
        self.complete = size == 0

    def next(self, chunk: bytes) -> None:
        """Note that this chunk is being sent."""
        if self._left is not None:
            self._left -= len(chunk)
            self.complete = self._left <= 0

    def end(self) -> None:
        """Note that all chunks were sent. Only this completes a body of unknown size: a mark that is sent after the
        last chunk ends it (chunked encoding).
        """
        self.complete = True


class _Secret(httpx.URL):
    """A URL whose query is a signature: httpx sends it whole, but logs it without the query."""

    def __str__(self) -> str:
        return super().__str__().partition("?")[0]


def request_of(http: httpx.Client | httpx.AsyncClient, send: Send, content: Any) -> httpx.Request:
    """Make the httpx request for ``send``, with the body ``content`` and with timeouts. The timeout for connecting is
    shorter than the others, so that the client soon gives up on a host that does not answer at all.

    Raises `httpx.UnsupportedProtocol` for a URL that httpx cannot use.
    """
    connect = CONNECT_SECONDS if send.connect is None else send.connect
    timeout = httpx.Timeout(send.timeout, connect=min(send.timeout, connect))
    try:
        url = httpx.URL(send.url)
        url.host  # noqa: B018 - reading it decodes it
    except (httpx.InvalidURL, UnicodeError) as error:  # UnicodeError: the host's IDNA encoding is broken
        raise httpx.UnsupportedProtocol("the URL is no address that a request can be sent to") from error
    request = http.build_request(send.method, url, headers=dict(send.headers), content=content, timeout=timeout)
    if send.signed:
        request.url = _Secret(send.url)
    return request


def _without_signature(record: logging.LogRecord) -> bool:
    """A logging filter that lets every record pass. It removes the query of a Location header, which may be a
    signature, from httpcore's records about the headers of an answer.
    """
    record.msg = _LOCATION.sub(r"\1", str(record.msg))
    return True


def answer(response: httpx.Response, body: bytes, stream: object = None, via: str = "") -> Answer:
    """Translate an httpx response into the core's `Answer`, with its ``body``, or with the ``stream`` from which to
    read it. ``via`` describes the request's proxy in words.
    """
    return Answer(response.status_code, dict(response.headers), body, stream, via)


def is_strange(send: Send, response: httpx.Response) -> bool:
    """Return whether the headers of a response show that the service did not send it.

    The driver does not read the body of such a response, which may be endless.
    """
    return not send.signed and Header.TERM not in response.headers


def lost(
    error: httpx.TransportError | UnicodeError | ssl.SSLError,
    send: Send | None = None,
    body: Sent | None = None,
    via: str = "",
) -> Lost:
    """Translate the httpx exception of a request that got no answer into the core's `Lost`. ``Lost.sent`` is false if
    the service certainly has not applied the request: it was not sent completely, or the two sides did not agree on
    TLS.

    ``body`` counts how much of the body was sent; ``via`` describes the request's proxy in words. A UnicodeError comes
    from an answer: httpx decodes the host of every Location header, although it does not follow redirects here.

    A server that refuses the client's certificate does so in the handshake, before it reads a request. In TLS 1.3 the
    client may already have sent the request when the refusal arrives, because the client ends its part of the handshake
    first.
    """
    advice = _advice(error)
    sent = not isinstance(error, _NOT_SENT) and (body is None or body.complete) and not advice
    where = "" if send is None else f"{urlsplit(send.url).hostname}:{urlsplit(send.url).port or ''} "
    timed_out = isinstance(error, httpx.TimeoutException) and not isinstance(error, _NOT_SENT)
    # A PoolTimeout is a wait for a free connection of this client; it does not mean that the server is unreachable.
    unreachable = isinstance(error, _NOT_SENT) and not isinstance(error, httpx.PoolTimeout)
    reason = f"{where}{type(error).__name__} {error}".rstrip()
    if advice:
        reason += f"; {advice}"
    if via and isinstance(error, httpx.ProxyError):
        reason = f"{where}was not asked: {via} answered {error}"
    elif via:
        reason += f", by way of {via}" + (": the service was not asked" if unreachable else "")
    return Lost(
        reason,
        sent=sent,
        timed_out=timed_out,
        unreachable=unreachable,
        untrusted=bool(advice),
    )


def _advice(error: Exception) -> str:
    """Return, for an error message, which setting to change if client and server cannot agree on TLS; "" for other
    errors.
    """
    connecting, cause = isinstance(error, _NOT_SENT), _of_tls(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        unknown = connecting and cause.verify_code in _UNKNOWN_AUTHORITY
        return "name the file of its authority by --ca, MILEPOST_CA or verify=" if unknown else ""
    if connecting and cause is not None and cause.reason == "WRONG_VERSION_NUMBER":
        return "it speaks no TLS there: use http in place of https"
    alert = None if cause is None else _ALERT.search(str(cause))
    if alert is None or (alert[3] and not connecting):
        return ""
    return "it refuses this client's certificate, or wants one: name one by --cert, MILEPOST_CERT or cert="


def _of_tls(error: BaseException | None) -> ssl.SSLError | None:
    """Return the `ssl.SSLError` in an error's chain of causes; None if there is none."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def overdue(send: Send, connected: bool, body: Sent, via: str = "") -> Lost:
    """Make the `Lost` for an attempt that the driver gave up at its timeout.

    ``connected`` says whether the attempt had a connection, ``body`` how much of the request was sent, and ``via``
    describes the proxy in words.
    """
    way = f", by way of {via}" if via else ""
    if not connected:
        return Lost(f"no connection within {send.timeout:.3g} s{way}", sent=False)
    return Lost(f"no answer within {send.timeout:.3g} s{way}", sent=body.complete, timed_out=True)

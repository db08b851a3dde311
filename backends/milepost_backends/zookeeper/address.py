"""Parse addresses ``zookeeper://h1:2181,h2:2181/path?session_timeout=4&…``, and the same with ``zookeeper+tls://``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from milepost_backends.contract import Misconfigured, UnsafeKey, check_key, parse_options

PLAIN: Final = "zookeeper"
SECURE: Final = "zookeeper+tls"
DEFAULT_ROOT: Final = "/milepost"
DEFAULT_SESSION_SECONDS: Final = 4.0

_DEFAULT_PORT: Final = {PLAIN: 2181, SECURE: 2281}
_VERIFY: Final = ("full", "ca", "none")
_OPTIONS: Final = ("session_timeout", "credentials_file")
_TLS_OPTIONS: Final = ("ca_file", "cert_file", "key_file", "verify")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?\Z")


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificates of TLS connections: which servers this client trusts, and by which certificate it identifies
    itself.

    ``verify`` is ``full`` to check the server's certificate and its host name, ``ca`` to check only the certificate,
    ``none`` to check nothing.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    verify: str = "full"


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """The parts of an address: a ZooKeeper ensemble, a path in it, and the way to connect.

    ``hosts`` is ``host:port`` separated by commas. All znodes of Milepost are below the path ``root``.
    ``session_seconds`` is the session timeout to request; the servers may grant another one. ``credentials_file`` has
    one line ``user:password``.
    """

    hosts: str
    root: str = DEFAULT_ROOT
    session_seconds: float = DEFAULT_SESSION_SECONDS
    credentials_file: Path | None = None
    tls: Tls | None = None

    @classmethod
    def parse(cls, url: str) -> ZooKeeperAddress:
        """Return the address in ``url``. Raises `Misconfigured`, which never quotes a possible password."""
        scheme, separator, rest = url.partition("://")
        if not separator or scheme not in _DEFAULT_PORT:
            raise Misconfigured(f"an address in ZooKeeper begins with {PLAIN}:// or {SECURE}://")
        place, _, query = rest.partition("?")
        hosts, _, path = place.partition("/")
        if "@" in hosts:
            raise Misconfigured("an address in ZooKeeper must not hold a user or password: use credentials_file")
        known = _OPTIONS + (_TLS_OPTIONS if scheme == SECURE else ())
        options = parse_options(query, known, "an address in ZooKeeper")
        return cls(
            hosts=",".join(_host(host, _DEFAULT_PORT[scheme]) for host in hosts.split(",")),
            root=_root(path),
            session_seconds=_session(options.get("session_timeout")),
            credentials_file=_file(options, "credentials_file"),
            tls=_tls(options) if scheme == SECURE else None,
        )

    def credentials(self) -> str | None:
        """Return ``user:password`` from the credentials file, which is read each time; None without such a file.

        Raises `Misconfigured`.
        """
        if self.credentials_file is None:
            return None
        try:
            line = self.credentials_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise Misconfigured(f"cannot read the credentials in {self.credentials_file}: {reason}") from None
        if not re.match(r"[^:\s]+:\S+\Z", line):
            raise Misconfigured(f"{self.credentials_file} does not hold one line user:password")
        return line


def _host(host: str, default_port: int) -> str:
    found = _HOST.match(host)
    if found is None or (found[2] and not 0 < int(found[2]) < 65536):
        raise Misconfigured("an address in ZooKeeper must name one or more host:port, separated by commas")
    return f"{found[1]}:{found[2] or default_port}"


def _root(path: str) -> str:
    trimmed = path.rstrip("/")
    if not trimmed:
        return DEFAULT_ROOT
    try:
        return "/" + check_key(trimmed)
    except UnsafeKey as error:
        raise Misconfigured(f"/{trimmed} is not a path that Milepost can use in ZooKeeper: {error}") from error


def _session(seconds: str | None) -> float:
    if seconds is None:
        return DEFAULT_SESSION_SECONDS
    if not re.match(r"\d{1,4}(\.\d{1,3})?\Z", seconds) or not 0.2 <= float(seconds) <= 3600:
        raise Misconfigured("session_timeout must be seconds from 0.2 to 3600")
    return float(seconds)


def _file(options: dict[str, str], name: str) -> Path | None:
    return None if (value := options.get(name)) is None else Path(value)


def _tls(options: dict[str, str]) -> Tls:
    verify = options.get("verify", "full")
    if verify not in _VERIFY:
        raise Misconfigured(f"verify must be one of {', '.join(_VERIFY)}")
    tls = Tls(_file(options, "ca_file"), _file(options, "cert_file"), _file(options, "key_file"), verify)
    if (tls.cert_file is None) is not (tls.key_file is None):
        raise Misconfigured("cert_file and key_file must be given together")
    return tls

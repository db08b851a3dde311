"""Chooses the proxy of a request: the given one, or one of the environment, unless `NO_PROXY` names the request's host.

This module reads the variables in place of httpx, which takes ``10.0.0.0/8`` for the host ``10.0.0.0`` and refuses IPv6
networks.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.request import getproxies

import httpx

_SCHEMES: Final = ("http", "https", "all")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Proxy:
    """A proxy, and the ``source`` of its URL: the name of a variable, or of the argument. ``str()`` describes the proxy
    for messages, without the password that its URL may contain.
    """

    url: str = field(repr=False)
    source: str

    def __str__(self) -> str:
        url = httpx.URL(self.url)
        port = "" if url.port is None else f":{url.port}"
        host = f"[{url.host}]" if ":" in url.host else url.host
        return f"the proxy {url.scheme}://{host}{port} ({self.source})"


class Proxies:
    """The proxies of one client, read from the environment when the client is made."""

    def __init__(self, given: str | None = None, trust_env: bool = True) -> None:
        self._by_scheme: dict[str, Proxy] = {}
        self._direct = Direct(())
        if given is not None:
            self._by_scheme["all"] = Proxy(given, "the argument proxy")
        elif trust_env:
            found = getproxies()  # getproxies() also reads the settings of macOS and Windows
            self._direct = Direct(found.get("no", "").split(","))
            for scheme in _SCHEMES:
                if url := found.get(scheme):
                    url = url if "://" in url else f"http://{url}"
                    self._by_scheme[scheme] = Proxy(url, f"{_variable(scheme)}; what NO_PROXY names goes without it")

    def all(self) -> list[Proxy]:
        """Return the proxies of this client, at most one for each URL scheme."""
        return list(self._by_scheme.values())

    def of(self, url: httpx.URL) -> Proxy | None:
        """Return the proxy of a request to ``url``, or None if the request needs no proxy."""
        if self._direct.matches(url):
            return None
        return self._by_scheme.get(url.scheme) or self._by_scheme.get("all")


class Direct:
    """The hosts to which requests go without a proxy: the entries of `NO_PROXY`, read as curl and Go read them.

    An entry is ``*``, a host including its subdomains (``example.com``; ``.example.com`` means only the subdomains), an
    address, a network (``10.0.0.0/8``, ``fd00::/8``), or one of these with a port. Any other entry matches nothing.
    Networks and addresses match only hosts that are given as an address; host names are not resolved.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        texts = [entry.strip().lower() for entry in entries]
        self._all = "*" in texts
        self._entries = [_Entry.of(text) for text in texts if text not in ("", "*")]

    def matches(self, url: httpx.URL) -> bool:
        """Return whether a request to ``url`` uses no proxy."""
        port = url.port or _PORTS.get(url.scheme)
        hosts = {url.host.lower(), url.raw_host.decode("ascii").lower()}
        return self._all or any(entry.matches(url.scheme, hosts, port) for entry in self._entries)


@dataclass(frozen=True)
class _Entry:
    scheme: str  # as httpx formats it: ``https://example.com``
    host: str
    network: IPv4Network | IPv6Network | None
    port: int | None

    @classmethod
    def of(cls, text: str) -> _Entry:
        scheme, _, rest = text.rpartition("://")
        host, port = _divided(rest)
        try:
            return cls(scheme, host, ip_network(host, strict=False), port)
        except ValueError:
            return cls(scheme, host.removeprefix("*"), None, port)

    def matches(self, scheme: str, hosts: Collection[str], port: int | None) -> bool:
        if self.scheme not in ("", "all", scheme) or self.port not in (None, port):
            return False
        return any(self._has(host) for host in hosts)

    def _has(self, host: str) -> bool:
        if self.network is None:
            below = self.host if self.host.startswith(".") else f".{self.host}"
            return host == self.host or host.endswith(below)
        try:
            return ip_address(host) in self.network
        except ValueError:
            return False


def _divided(text: str) -> tuple[str, int | None]:
    """Split ``host``, ``host:port``, ``address``, ``[address]`` or ``[address]:port`` into host and port (None: no
    port).
    """
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return (f"{host}{rest}", None) if rest.startswith("/") else (host, _number(rest.removeprefix(":")))
    host, _, rest = text.partition(":")
    return (text, None) if ":" in rest or not rest.isdecimal() else (host, _number(rest))


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _variable(scheme: str) -> str:
    """Describe, for messages, where the proxy for a URL scheme was set: ``from`` and the environment variable (in lower
    case if both exist, as Python prefers), or else the system's settings.
    """
    for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
        if os.environ.get(name):
            return f"from {name}"
    return "from the settings of this system"

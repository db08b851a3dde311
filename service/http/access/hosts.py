"""Whom a request is meant for: on a server without tokens the one thing that tells a user of this machine from a web
page that his browser has open.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from milepost.wire import Code
from service.basics.problems import problem

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
ANY = "*"
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+(?:%[^\[\]]+)?)\]|(?P<name>[^\s:/?#@\[\]]*))(?::[0-9]*)?\Z")


class Hosts:
    """The names that a server answers to, as the header Host says them; the port is not looked at.

    Who owns a name can let it point to this machine once his page is loaded (DNS rebinding): then the browser takes the
    server for the page's own and lets it read and send everything. A name of the loopback is nobody's to give, and the
    advertised one is the owner's. ``more`` names others, ``*`` all. An address is no name, so it cannot be rebound;
    ``any_address`` is for servers that are reached by others than this machine.
    """

    def __init__(self, advertise: str, more: Iterable[str] = (), *, any_address: bool = False) -> None:
        self._names = {name for name in (_name_in(urlsplit(advertise).netloc), *map(_name_in, more)) if name}
        self._any_address = any_address

    def check(self, host: str | None, origins: Iterable[str], method: str) -> None:
        """Raises ``forbidden`` for a request that is meant for somebody else, or a change that another page asks for.

        Without a Host, which HTTP/1.0 allows, it comes from no browser.
        """
        if host is not None and not self._knows(_name_in(host)):
            raise problem(
                Code.FORBIDDEN, f"without tokens this server does not answer to the Host {host[:100]!r} (see --hosts)"
            )
        for origin in origins if method not in _READING else ():
            if origin and origin.lower().partition("://")[2] != (host or "").lower():
                raise problem(Code.FORBIDDEN, f"without tokens no change is made for a page of {origin[:100]!r}")

    def _knows(self, name: str) -> bool:
        if name in self._names or ANY in self._names or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._any_address or address.is_loopback


def _name_in(host: str) -> str:
    """The name without its port, in the form in which names are compared; empty for what is no host (RFC 3986)."""
    host = host.strip().lower()
    match = _HOST.match(host)
    if match is not None and match["address"] is None:
        return match["name"].removesuffix(".")
    address = host if match is None else match["address"]
    return address if _is_ipv6(address) else ""


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False

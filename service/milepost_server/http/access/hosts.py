"""Checks the header Host, which names the server for which a request is meant.

On a server without tokens, only this check keeps a web page that is open in a browser on this machine from using the
server.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from milepost.wire import Code
from milepost_server.basics.problems import problem

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
ANY = "*"
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+(?:%[^\[\]]+)?)\]|(?P<name>[^\s:/?#@\[\]]*))(?::[0-9]*)?\Z")


class Hosts:
    """The host names that a server answers to. The port in the header Host is not checked.

    The check prevents DNS rebinding: the owner of a name serves a web page, and then points the name to this machine.
    The browser now takes this server for the origin of the page, so the page may read and send everything. Two kinds of
    names are safe: those of the loopback interface, which nobody can own, and the advertised name, which belongs to the
    owner of this server. ``more`` adds other names, ``*`` all names. An IP address cannot be rebound; ``any_address``
    accepts all addresses, for a server that other machines reach.
    """

    def __init__(self, advertise: str, more: Iterable[str] = (), *, any_address: bool = False) -> None:
        self._names = {name for name in (_name_in(urlsplit(advertise).netloc), *map(_name_in, more)) if name}
        self._any_address = any_address

    def check(self, host: str | None, origins: Iterable[str], method: str) -> None:
        """Raise ``forbidden`` for a request to another host, or for a change that a web page of another host requests.
        ``origins`` are the values of the header Origin.

        A request without a Host passes: HTTP/1.0 allows it, and no browser sends it.
        """
        if host is not None and not self._knows(_name_in(host)):
            raise problem(
                Code.FORBIDDEN, f"without tokens this server does not answer to the Host {host[:100]!r} (see --hosts)"
            )
        for origin in origins if method not in _READING else ():
            if origin and origin.lower().partition("://")[2] != (host or "").lower():
                raise problem(Code.FORBIDDEN, f"without tokens no web page of {origin[:100]!r} may change anything")

    def _knows(self, name: str) -> bool:
        if name in self._names or ANY in self._names or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._any_address or address.is_loopback


def _name_in(host: str) -> str:
    """Return the name or address in a Host header, in lower case and without its port; empty if it is not a host (RFC
    3986).
    """
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

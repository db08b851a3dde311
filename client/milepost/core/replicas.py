"""Which replica to ask: the leader where it is known, else one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

MAX_REDIRECTS = 5


class Replicas:
    """The addresses of a service, and which of them led when it last answered.

    Shared between threads: the only thing that changes is one reference.
    """

    def __init__(self, addresses: str | Sequence[str]) -> None:
        """Raises ValueError for anything but http and https URLs."""
        given = [addresses] if isinstance(addresses, str) else list(addresses)
        if not given:
            raise ValueError("a client needs the address of at least one replica")
        self.addresses = tuple(dict.fromkeys(_checked(address) for address in given))
        self.leader: str | None = None

    def round(self) -> Round:
        """Begin asking around."""
        return Round(self)


class Round:
    """One walk over the replicas, the leader first. ``target`` is the one to ask now."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._asked: set[str] = set()
        self._redirects = 0
        self.target = replicas.leader or replicas.addresses[0]

    def answered(self) -> None:
        """The target answered as a leader does."""
        self._replicas.leader = self.target

    def next(self) -> bool:
        """Turn to a replica that was not asked yet; False, with a new round begun, when there is none left."""
        self._asked.add(self.target)
        if self._replicas.leader == self.target:
            self._replicas.leader = None
        for address in self._replicas.addresses:
            if address not in self._asked:
                self.target = address
                return True
        self.again()
        self.target = self._replicas.leader or self._replicas.addresses[0]
        return False

    def again(self) -> None:
        """Begin a new round where this one stands."""
        self._asked.clear()
        self._redirects = 0

    def follow(self, location: str, path: str) -> str | None:
        """Turn to the replica that ``location`` (the answer to ``path``) names; otherwise say why not."""
        base = location.removesuffix(path) if location.endswith(path) else _origin(location)
        try:
            base = _checked(base)
        except ValueError as error:
            return f"redirected to an address that cannot be used: {error}"
        if self.target.startswith("https:") and not base.startswith("https:"):
            return f"refused to follow a redirect from https to {base}"
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS:
            return "the replicas send requests round in a circle"
        self._asked.add(self.target)
        self.target = base
        return None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _checked(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not an http or https URL: {address!r}")
    if parts.username or parts.password:
        raise ValueError("credentials do not belong into an address; hand over a token")
    if parts.query or parts.fragment:
        raise ValueError(f"an address has no query and no fragment: {address!r}")
    return address.rstrip("/")

"""The data nodes that a leader knows of: the replicas that lately said that they take and give bytes."""

from __future__ import annotations

from collections.abc import Callable, Container
from urllib.parse import urlsplit

KNOWN_SECONDS = 7.0
"""How long a data node is sent clients after it last said that it is there."""

_MOST = 100


class DataNodeRegistry:
    """The other replicas that are data nodes, by address, in turn. ``clock`` gives monotonic seconds."""

    def __init__(self, own: str, clock: Callable[[], float]) -> None:
        self.own = own.rstrip("/")
        self._clock = clock
        self._until: dict[str, float] = {}

    def note(self, url: str) -> None:
        """Note that the data node at this address is there."""
        url = url.rstrip("/")
        if url != self.own and (url in self._until or len(self._until) < _MOST):
            self._until[url] = self._clock() + KNOWN_SECONDS

    def forget(self, url: str) -> None:
        """Send nobody there any more."""
        self._until.pop(url.rstrip("/"), None)

    def all(self) -> list[str]:
        """Return the addresses of all data nodes, this replica's own first."""
        now = self._clock()
        return [self.own, *sorted(url for url, until in self._until.items() if until > now)]

    def next(self, excluded: Container[str] = ()) -> str:
        """Return the address of the data node whose turn it is; of this replica itself, if there is no other.

        Hosts and ports in ``excluded`` did not answer the client. A data node that does not lead outlives a change of
        leader with a body half taken, so the leader takes bytes only where nobody else does.
        """
        now = self._clock()
        self._until = {url: until for url, until in self._until.items() if until > now}
        for url in self._until:
            if urlsplit(url).netloc not in excluded:
                self._until[url] = self._until.pop(url)  # the last one from now on
                return url
        return self.own

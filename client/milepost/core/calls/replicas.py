"""Chooses the next replica to ask: the leader if the client knows it, otherwise each replica in turn. Also checks
whether a URL is one that a request can be sent to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

from milepost.core.clock import Clock, monotonic

MAX_REDIRECTS = 5

_VISIBLE = re.compile(r"[\x21-\x7e]+\Z")
_LABELS = re.compile(r"(?=.{1,253}\Z)[^.]{1,63}(?:\.[^.]{1,63})*\.?\Z")


class Replicas:
    """The addresses of a service, the replica that led when the service last answered, and the replicas that recently
    did not answer.

    A replica that did not answer becomes a suspect, and the client avoids it for a while: a paused leader still accepts
    connections, and the other replicas keep redirecting to it until its lease is over. Threads share this object: every
    change replaces one reference.
    """

    def __init__(self, addresses: str | Sequence[str], clock: Clock = monotonic) -> None:
        """Take the addresses of all replicas. Raises ValueError for an address that is not an http or https URL."""
        given = [addresses] if isinstance(addresses, str) else list(addresses)
        if not given:
            raise ValueError("a client needs the address of at least one replica")
        self.addresses = tuple(dict.fromkeys(_checked(address) for address in given))
        self.leader: str | None = None
        self._clock = clock
        self._suspected_until: Mapping[str, float] = {}

    @property
    def secure(self) -> bool:
        """Return whether the client reaches the service by https."""
        return any(address.startswith("https:") for address in self.addresses)

    def round(self) -> Round:
        """Begin a round, in which a call asks one replica after the other until the leader answers."""
        return Round(self)

    def first(self) -> str:
        """Return the replica to ask first: the leader, else the first that is not a suspect, else the one that stops
        being a suspect soonest.
        """
        now = self._clock()
        until = self._suspected_until
        return self.leader or min(self.addresses, key=lambda address: max(now, until.get(address, now)))

    def leader_first(self) -> Sequence[str]:
        """Return all addresses, beginning with the leader's if it is known and among them."""
        return sorted(self.addresses, key=lambda address: address != self.leader)

    def another(self, asked: Collection[str]) -> str | None:
        """Return the next replica that is neither in ``asked`` nor a suspect; None if there is none."""
        return next((each for each in self.addresses if each not in asked and not self.suspected(each)), None)

    def suspected(self, address: str) -> bool:
        """Return whether ``address`` is a suspect: it did not answer a recent request, so asking it again would
        probably cost time in vain.
        """
        return self._suspected_until.get(address, 0.0) > self._clock()

    def suspect(self, address: str, seconds: float) -> None:
        """Make ``address`` a suspect for ``seconds``: the client asks the other replicas first."""
        now = self._clock()
        others = {each: until for each, until in self._suspected_until.items() if until > now}
        self._suspected_until = {**others, address: now + seconds}
        if self.leader == address:
            self.leader = None

    def answered(self, address: str) -> None:
        """Note that ``address`` answered as the leader."""
        if address in self._suspected_until:
            self._suspected_until = {each: t for each, t in self._suspected_until.items() if each != address}
        self.leader = address


class Round:
    """A round in which a call asks each replica once, the leader first. ``target`` is the replica to ask now."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._asked: set[str] = set()
        self._redirects = 0
        self.target = replicas.first()

    def answered(self) -> None:
        """Note that the target answered as the leader."""
        self._replicas.answered(self.target)

    def silent(self, seconds: float) -> None:
        """Make the target a suspect for ``seconds``: it did not answer within ``seconds`` beyond the time that the
        request itself may need.
        """
        if seconds > 0:
            self._replicas.suspect(self.target, seconds)

    def next(self) -> bool:
        """Choose as target a replica that this round has not asked yet, and return True. If none is left, begin a new
        round and return False.
        """
        self._asked.add(self.target)
        if self._replicas.leader == self.target:
            self._replicas.leader = None
        another = self._replicas.another(self._asked)
        if another is None:
            self.again()
        self.target = another or self._replicas.first()
        return another is not None

    def again(self) -> None:
        """Begin a new round with the present target."""
        self._asked.clear()
        self._redirects = 0

    def follow(self, location: str, path: str) -> str | None:
        """Make the replica to which a redirect leads the target; return None, or the reason why the redirect cannot be
        followed.

        ``location`` is the URL in the redirect, which answered a request for ``path``.
        """
        if not location.endswith(path):
            return "the redirect does not lead to the same call at another replica"
        try:
            base = _checked(location.removesuffix(path))
        except ValueError:  # not chained: the ValueError quotes the address, which may contain a secret
            return "the redirect leads to an address that cannot be used"
        if self.target.startswith("https:") and not base.startswith("https:"):
            return f"refused to follow a redirect from https to {base}"
        if self._replicas.suspected(base):
            return f"the redirect leads to {base}, which did not answer in time"
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS:
            return "the replicas redirect in a circle"
        self._asked.add(self.target)
        self.target = base
        return None


def _checked(address: str) -> str:
    parts = http_url(address)
    if "@" in address and (parts is None or parts.username or parts.password):
        # The message does not quote the address, which contains credentials.
        raise ValueError("an address must not hold credentials; use a token instead")
    if parts is None:
        raise ValueError(why_unusable(address))
    if parts.query or parts.fragment:
        raise ValueError(f"an address must have no query and no fragment: {address!r}")
    return address.rstrip("/")


def http_url(url: str) -> SplitResult | None:
    """Return the parts of an http or https URL whose host can be looked up; None for anything else.

    A host with an empty or an overlong label is refused here: for such a host, the system's resolver would raise a
    UnicodeError instead of a network error.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    usable = (
        parts.scheme in ("http", "https") and port != 0 and _VISIBLE.match(url) and _LABELS.match(parts.hostname or "")
    )
    return parts if usable else None


def why_unusable(url: str) -> str:
    """Return the reason, for an error message, why ``url`` is not an http or https URL whose host can be looked up
    (`http_url`).
    """
    if not url.lower().startswith(("http://", "https://")):
        return f"the address {url!r} begins neither with http:// nor with https://"
    return f"not an http or https URL: {url!r}"

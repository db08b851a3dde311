"""Which replica to ask: the leader where it is known, else one after the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from milepost.core.clock import Clock, monotonic
from milepost.core.urls import http_url

MAX_REDIRECTS = 5


class Replicas:
    """The addresses of a service, which of them led when it last answered, and which lately did not answer.

    Such a suspect is not asked for a while: a leader that is paused takes requests in, and the others go on naming it
    until its lease is over. Shared between threads: whatever changes is one reference.
    """

    def __init__(self, addresses: str | Sequence[str], clock: Clock = monotonic) -> None:
        """Raises ValueError for anything but http and https URLs."""
        given = [addresses] if isinstance(addresses, str) else list(addresses)
        if not given:
            raise ValueError("a client needs the address of at least one replica")
        self.addresses = tuple(dict.fromkeys(_checked(address) for address in given))
        self.leader: str | None = None
        self._clock = clock
        self._suspected_until: Mapping[str, float] = {}

    @property
    def secure(self) -> bool:
        """Whether the service is spoken to by https."""
        return any(address.startswith("https:") for address in self.addresses)

    def round(self) -> Round:
        """Begin asking around."""
        return Round(self)

    def first(self) -> str:
        """Whom to ask first: the leader, else the first that is no suspect, else who is one for the least time yet."""
        now = self._clock()
        until = self._suspected_until
        return self.leader or min(self.addresses, key=lambda address: max(now, until.get(address, now)))

    def another(self, asked: Collection[str]) -> str | None:
        """The next that was not asked yet and is no suspect."""
        return next((each for each in self.addresses if each not in asked and not self.suspected(each)), None)

    def suspected(self, address: str) -> bool:
        """Whether ``address`` left a request unanswered so lately that asking it again would only take time."""
        return self._suspected_until.get(address, 0.0) > self._clock()

    def suspect(self, address: str, seconds: float) -> None:
        """Let ``address`` be a suspect for ``seconds``."""
        now = self._clock()
        others = {each: until for each, until in self._suspected_until.items() if until > now}
        self._suspected_until = {**others, address: now + seconds}
        if self.leader == address:
            self.leader = None

    def answered(self, address: str) -> None:
        """``address`` answered as a leader does."""
        if address in self._suspected_until:
            self._suspected_until = {each: t for each, t in self._suspected_until.items() if each != address}
        self.leader = address


class Round:
    """One walk over the replicas, the leader first. ``target`` is the one to ask now."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._asked: set[str] = set()
        self._redirects = 0
        self.target = replicas.first()

    def answered(self) -> None:
        """The target answered as a leader does."""
        self._replicas.answered(self.target)

    def silent(self, seconds: float) -> None:
        """The target was waited for in vain, ``seconds`` longer than it was asked to take: a suspect for as long."""
        if seconds > 0:
            self._replicas.suspect(self.target, seconds)

    def next(self) -> bool:
        """Turn to a replica that was not asked yet; False, with a new round begun, when there is none left."""
        self._asked.add(self.target)
        if self._replicas.leader == self.target:
            self._replicas.leader = None
        another = self._replicas.another(self._asked)
        if another is None:
            self.again()
        self.target = another or self._replicas.first()
        return another is not None

    def again(self) -> None:
        """Begin a new round where this one stands."""
        self._asked.clear()
        self._redirects = 0

    def follow(self, location: str, path: str) -> str | None:
        """Turn to the replica that ``location`` (the answer to ``path``) names; otherwise say why not."""
        if not location.endswith(path):
            return "redirected to something else than the same call at another replica"
        try:
            base = _checked(location.removesuffix(path))
        except ValueError:  # it quotes the address, and who knows what stands in that
            return "redirected to an address that cannot be used"
        if self.target.startswith("https:") and not base.startswith("https:"):
            return f"refused to follow a redirect from https to {base}"
        if self._replicas.suspected(base):
            return f"{base}, which is said to lead, did not answer in time"
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS:
            return "the replicas send requests round in a circle"
        self._asked.add(self.target)
        self.target = base
        return None


def _checked(address: str) -> str:
    parts = http_url(address)
    if parts is None:
        raise ValueError(f"not an http or https URL: {address!r}")
    if parts.username or parts.password:
        raise ValueError("credentials do not belong into an address; hand over a token")
    if parts.query or parts.fragment:
        raise ValueError(f"an address has no query and no fragment: {address!r}")
    return address.rstrip("/")

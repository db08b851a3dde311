"""When sessions and uploads run out. Deadlines live in the leader's memory only: a keepalive changes nothing that is
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from service.rules.records import Corrupt, Session, Upload


@dataclass(slots=True)
class _Lease:
    session: Session
    deadline: float
    ending: bool = False


class Leases:
    """The deadlines of the living sessions under this leadership. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._leases: dict[str, _Lease] = {}

    def start(self, sessions: Iterable[Session | Corrupt]) -> None:
        """A new leadership: every living session gets a full TTL again."""
        self._leases = {}
        for session in sessions:
            if isinstance(session, Session) and not session.ended:
                self.renew(session)

    def renew(self, session: Session, received: float | None = None) -> None:
        """Count the TTL anew, from ``received`` (when the renewing request came in) or from now.

        An earlier renewal that is counted later takes nothing away; one with a shorter TTL does.
        """
        start = self._clock() if received is None else received
        lease = self._leases.get(session.id)
        if lease is None or lease.session.born != session.born:
            self._leases[session.id] = _Lease(session, start + session.ttl)
        elif not lease.ending:
            shorter = session.ttl < lease.session.ttl
            lease.deadline = start + session.ttl if shorter else max(start + session.ttl, lease.deadline)
            lease.session = session

    def forget(self, session: str) -> None:
        """The session has ended."""
        self._leases.pop(session, None)

    def ending(self, session: str) -> bool:
        """Whether the session's expiry has begun: from then on a keepalive must be refused."""
        lease = self._leases.get(session)
        return lease is not None and lease.ending

    def expires_in(self, session: str) -> float:
        """Seconds until the deadline, 0 when it has passed."""
        lease = self._leases.get(session)
        return max(0.0, lease.deadline - self._clock()) if lease else 0.0

    def begin_expiry(self) -> list[Session]:
        """The sessions whose deadline has passed; their expiry has begun with this call."""
        now = self._clock()
        overdue = [lease for lease in self._leases.values() if not lease.ending and lease.deadline <= now]
        for lease in overdue:
            lease.ending = True
        return [lease.session for lease in overdue]

    def expiry_failed(self, session: Session) -> None:
        """The expiry could not be committed; it will begin again."""
        lease = self._leases.get(session.id)
        if lease is not None and lease.session.born == session.born:
            lease.ending = False
            lease.deadline = self._clock()


class UploadLeases:
    """The deadlines of the pending uploads under this leadership. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deadlines: dict[tuple[str, str], float] = {}
        self._ending: set[tuple[str, str]] = set()

    def start(self, pending: Iterable[tuple[str, Upload]]) -> None:
        """A new leadership: every pending upload, given with its store, gets its full time again."""
        self._deadlines, self._ending = {}, set()
        for store, upload in pending:
            self.note(store, upload)

    def note(self, store: str, upload: Upload) -> None:
        """A record was committed: the upload's time begins, or it has ended."""
        if upload.ended:
            self.forget(store, upload.id)
        else:
            self._deadlines[store, upload.id] = self._clock() + upload.ttl

    def forget(self, store: str, upload: str) -> None:
        """The upload has ended."""
        self._deadlines.pop((store, upload), None)
        self._ending.discard((store, upload))

    def expires_in(self, store: str, upload: str) -> float:
        """Seconds until the deadline, 0 when it has passed."""
        return max(0.0, self._deadlines.get((store, upload), 0.0) - self._clock())

    def begin_expiry(self) -> list[tuple[str, str]]:
        """Store and id of the uploads whose deadline has passed; their expiry has begun with this call."""
        now = self._clock()
        overdue = [key for key, deadline in self._deadlines.items() if deadline <= now and key not in self._ending]
        self._ending.update(overdue)
        return overdue

    def expiry_failed(self, store: str, upload: str) -> None:
        """The expiry could not be committed; it will begin again."""
        self._ending.discard((store, upload))

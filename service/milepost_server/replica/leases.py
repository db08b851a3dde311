"""The deadlines of sessions and uploads.

The deadlines are only in the leader's memory, so a keepalive writes nothing to the pointer store.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from milepost_server.basics.deadline_queue import DeadlineQueue
from milepost_server.model.records import Corrupt, Session, Upload

AT_ONCE: Final = 256
"""The most sessions or uploads whose expiry is begun in one step."""


@dataclass(slots=True)
class _Lease:
    session: Session
    deadline: float
    renewed: float
    ending: bool = False


class Leases:
    """The deadlines of the living sessions under this leadership. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._leases: dict[str, _Lease] = {}
        self._deadlines: DeadlineQueue[str] = DeadlineQueue()

    def clear(self) -> None:
        """Drop the deadlines of all sessions, because a new leadership begins."""
        self._leases = {}
        self._deadlines.clear()

    def begin(self, session: Session | Corrupt) -> None:
        """Give a session from before this leadership its full TTL again, unless the session has ended."""
        if isinstance(session, Session) and not session.ended and session.id not in self._leases:
            self.renew(session)
            # the leader began this lease, not a keepalive of the client, so `was_renewed_lately` must return false
            self._leases[session.id].renewed = -math.inf

    def renew(self, session: Session, received: float | None = None) -> None:
        """Restart the TTL of a session at ``received``, when the renewing request came in; None means now.

        An older renewal that is processed late does not shorten the lease, but a shorter TTL does.
        """
        start = self._clock() if received is None else received
        lease = self._leases.get(session.id)
        if lease is None or lease.session.created_revision != session.created_revision:
            lease = self._leases[session.id] = _Lease(session, start + session.ttl, start)
            self._deadlines.set(session.id, lease.deadline)
        elif not lease.ending:
            shorter = session.ttl < lease.session.ttl
            lease.deadline = start + session.ttl if shorter else max(start + session.ttl, lease.deadline)
            lease.session = session
            lease.renewed = max(lease.renewed, start)
            self._deadlines.set(session.id, lease.deadline)

    def forget(self, session: str) -> None:
        """Drop the deadline of a session that has ended."""
        self._leases.pop(session, None)
        self._deadlines.discard(session)

    def ending(self, session: str) -> bool:
        """Return whether the session's expiry has begun. From then on a keepalive must be refused."""
        lease = self._leases.get(session)
        return lease is not None and lease.ending

    def was_renewed_lately(self, session: str) -> bool:
        """Return whether the client renewed the session under this leadership, less than half of its TTL ago."""
        lease = self._leases.get(session)
        return lease is not None and self._clock() - lease.renewed < lease.session.ttl / 2

    def expires_in(self, session: str) -> float:
        """Return the seconds until the session's deadline, 0 when it has passed."""
        lease = self._leases.get(session)
        return max(0.0, lease.deadline - self._clock()) if lease else 0.0

    def begin_expiry(self) -> list[Session]:
        """Begin the expiry of sessions whose deadline has passed, `AT_ONCE` at most, and return them."""
        overdue = [self._leases[session] for session in self._deadlines.take(self._clock(), AT_ONCE)]
        for lease in overdue:
            lease.ending = True
        return [lease.session for lease in overdue]

    @property
    def overdue(self) -> bool:
        """Whether there may be more sessions whose deadline has passed."""
        return self._deadlines.waiting(self._clock())

    def expiry_failed(self, session: Session) -> None:
        """Let the session expire again at once, because its expiry could not be committed."""
        lease = self._leases.get(session.id)
        if lease is not None and lease.session.created_revision == session.created_revision:
            lease.ending = False
            lease.deadline = self._clock()
            self._deadlines.set(session.id, lease.deadline)


class UploadLeases:
    """The deadlines of the pending uploads under this leadership. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deadlines: DeadlineQueue[tuple[str, str]] = DeadlineQueue()
        self._ending: set[tuple[str, str]] = set()

    def clear(self) -> None:
        """Drop the deadlines of all uploads, because a new leadership begins."""
        self._deadlines.clear()
        self._ending = set()

    def begin(self, store: str, upload: Upload) -> None:
        """Give a pending upload from before this leadership its full time again."""
        self.note(store, upload)

    def note(self, store: str, upload: Upload) -> None:
        """Begin the deadline of an upload whose committed record is pending, or drop it if the upload has ended."""
        if upload.ended:
            self.forget(store, upload.id)
        else:
            self._deadlines.set((store, upload.id), self._clock() + upload.ttl)

    def forget(self, store: str, upload: str) -> None:
        """Drop the deadline of an upload that has ended."""
        self._deadlines.discard((store, upload))
        self._ending.discard((store, upload))

    def expires_in(self, store: str, upload: str) -> float:
        """Return the seconds until the upload's deadline, 0 when it has passed."""
        return max(0.0, (self._deadlines.get((store, upload)) or 0.0) - self._clock())

    def begin_expiry(self) -> list[tuple[str, str]]:
        """Begin the expiry of uploads whose deadline has passed, `AT_ONCE` at most. Return the store and id of each."""
        overdue = self._deadlines.take(self._clock(), AT_ONCE)
        self._ending.update(overdue)
        return overdue

    @property
    def overdue(self) -> bool:
        """Whether there may be more uploads whose deadline has passed."""
        return self._deadlines.waiting(self._clock())

    def expiry_failed(self, store: str, upload: str) -> None:
        """Let the upload expire again at once, because its expiry could not be committed."""
        if (store, upload) in self._ending:
            self._ending.discard((store, upload))
            self._deadlines.set((store, upload), self._clock())

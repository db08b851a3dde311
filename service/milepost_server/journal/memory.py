"""The leader's copy of its journal in memory: all records, their checksums, their size, and the ages of revisions.

While the lease holds, this copy is authoritative, even if another process changes the pointer store.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from milepost_backends.contract import Head
from milepost_server.journal.commit.groups import Group
from milepost_server.journal.commit.room import SizeLimit
from milepost_server.journal.events import LatestEvents
from milepost_server.journal.loading import Loaded
from milepost_server.journal.proof import Proof
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.records import ENDED_SESSION_SECONDS, KEPT_KEYS_SECONDS, Corrupt
from milepost_server.rules.decisions import Changes, DecisionContext, Inventory

log = logging.getLogger("milepost.journal")


class JournalMemory:
    """The records of a journal, as committed and as they will be once the groups in flight have been committed.

    ``head`` is the head after the last commit. ``view`` shows both states of the records; ``proof`` and ``size_limit``
    already include the groups in flight. ``unwritten`` has the keys of records that are right in memory but could not
    be written back to the pointer store. ``clock`` gives monotonic seconds, ``wall`` the time of day as text. Granted
    epochs are above ``epoch_floor``; ``most_uploads`` is how many pending uploads a store may have.
    """

    def __init__(
        self, name: str, clock: Callable[[], float], wall: Callable[[], str], *, epoch_floor: int, most_uploads: int
    ) -> None:
        self.name = name
        self.head = Head(name, 0, 0, "")
        self.view = View(State())
        self.events = LatestEvents(0)
        """The events of the groups that this process committed under its current or last leadership."""
        self.proof = Proof()
        self.size_limit = SizeLimit(None)
        self.unwritten: set[str] = set()
        self._damaged: frozenset[str] = frozenset()
        self._ages = _RevisionAges(ENDED_SESSION_SECONDS)
        self._clock = clock
        self._wall = wall
        self._epoch_floor = epoch_floor
        self._most_uploads = most_uploads

    def begin(self, loaded: Loaded, head: Head, most_bytes: int | None, known_from: int) -> None:
        """Begin a leadership with the records that were loaded under ``head``, and forget all earlier ones.

        ``most_bytes`` bounds the size of all records together; None sets no limit. No change was committed between the
        revision ``known_from`` and ``head``. A take-over raises the revision by one, so that is usually the revision
        right before that of ``head``.
        """
        self.head = head
        self.view = View(loaded.state)
        self.events.end()
        self.events = LatestEvents(known_from)
        self.events.move(head.revision)
        self.proof = loaded.proof
        self.size_limit = SizeLimit(most_bytes)
        self.size_limit.taken = loaded.size
        self.unwritten = set()
        self._ages = _RevisionAges(ENDED_SESSION_SECONDS)
        self._ages.note(self._clock(), head.revision)

    @property
    def damaged(self) -> list[str]:
        """The sorted keys of records that are not served because of a wrong checksum, and of ``unwritten`` records."""
        corrupt = (key for key in self._damaged if isinstance(self.view.state.get(key), Corrupt))
        return sorted({*corrupt, *self.unwritten})

    def name_damage(self) -> None:
        """Find the records whose checksum is wrong, and log each of them."""
        self._damaged = frozenset(self.view.state.damaged())
        for key in self.damaged:
            record = self.view.state.get(key)
            if isinstance(record, Corrupt):
                log.error("the record %s of journal %s is damaged and not served: %s", key, self.name, record.reason)

    def contexts(self) -> Callable[[int], DecisionContext]:
        """Return a function that maps a revision to the context of the rules when they decide the change to that
        revision.

        The clock is read only once, for all requests of a group.
        """
        now, lineage, wall = self._clock(), self.head.lineage, self._wall()
        keys_horizon = self._ages.before(now - KEPT_KEYS_SECONDS)
        # sessions are kept for longer, so that the second is seldom asked for
        sessions_horizon = keys_horizon and self._ages.before(now - ENDED_SESSION_SECONDS)
        floor, most, committed = self._epoch_floor, self._most_uploads, self.head.revision

        def context(revision: int) -> DecisionContext:
            return DecisionContext(revision, lineage, wall, keys_horizon, sessions_horizon, floor, most, committed)

        return context

    def revision_before(self, seconds: float) -> int:
        """Return the latest revision that was surely committed at least ``seconds`` ago; 0 if there is none under this
        leadership.
        """
        return self._ages.before(self._clock() - seconds)

    def stage(self, group: Group) -> None:
        """Count the changes of a group, which is written next, in the hashes and the size of all records. The view
        already has these changes.
        """
        group.replaced = self.proof.apply_sealed(group.values)
        group.digest = self.proof.digest
        self.size_limit.taken += group.growth

    def commit(self, group: Group) -> None:
        """Show the changes of a committed group to readers. For requests in the group whose answer lists a whole store
        (`Inventory`), take a snapshot of the records right after the group.
        """
        changes: list[tuple[int, Changes]] = []
        inventories: list[Inventory] = []
        for member in group.members:
            accepted = member.accepted
            changes.append((member.revision, accepted.changes))
            if accepted.inventory is not None:
                inventories.append(accepted.inventory)
        self.events.commit(self.view.state, changes, group.revision)
        self.view.commit(group.number)
        for inventory in inventories:
            inventory.snapshot = self.view.state.snapshot()
        self.head = replace(self.head, revision=group.revision, digest=group.digest)
        if self.unwritten:
            self.unwritten.difference_update(group.values)
        self._ages.note(self._clock(), group.revision)

    def conclude_flight(self, committed: Sequence[Group], others: Sequence[Group]) -> None:
        """End the flight of all groups: show the changes of the ``committed`` groups to readers, and undo those of the
        ``others``.
        """
        for group in reversed(others):
            self.proof.put_back(group.replaced)
            self.size_limit.taken -= group.growth
        for group in committed:
            self.commit(group)
        self.view.discard_in_flight()

    def resolve(self, head: Head, unwritten: Sequence[str], *, found: bool) -> None:
        """Note that the pointer store has the same records as memory under ``head``, except for those with the keys
        ``unwritten``. ``found`` is whether memory took records from the pointer store, which are no event.
        """
        self.head = head
        self.events.move(head.revision)
        if found:
            self.events.break_off(head.revision)
        self.unwritten = set(unwritten)
        self._ages.note(self._clock(), head.revision)
        self.name_damage()


class _RevisionAges:
    """A history of which revision was current at which time: one entry each ``step`` seconds, and always the latest.

    Entries older than ``keep`` seconds are dropped, except the latest one. A new leader does not know when earlier
    revisions were committed, and counts them from the beginning of its leadership. So an age may be too low but never
    too high, and a record may be kept too long but never too short.
    """

    def __init__(self, keep: float, step: float = 5.0) -> None:
        self._keep = keep
        self._step = step
        self._times: list[float] = []
        self._revisions: list[int] = []

    def note(self, now: float, revision: int) -> None:
        """Note that ``revision`` is committed at ``now`` (monotonic seconds)."""
        if len(self._times) > 1 and now - self._times[-2] < self._step:
            self._times.pop()
            self._revisions.pop()
        self._times.append(now)
        self._revisions.append(revision)
        stale = bisect_right(self._times, now - self._keep - self._step) - 1
        if stale > 0:
            del self._times[:stale], self._revisions[:stale]

    def before(self, time: float) -> int:
        """Return the latest noted revision that was committed at or before the monotonic ``time``, else 0."""
        index = bisect_right(self._times, time) - 1
        return self._revisions[index] if index >= 0 else 0

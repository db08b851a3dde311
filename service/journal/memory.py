"""What a leader remembers of its journal: the records, and their sums.

While the lease holds this is the truth, whatever a foreign hand does to the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from backends.contract import Head
from service.journal.commit.bound import Bound
from service.journal.commit.groups import Group
from service.journal.loading import Loaded
from service.journal.proof import Proof
from service.journal.revision_ages import RevisionAges
from service.rules.decisions import DecisionContext
from service.rules.memory.state import State
from service.rules.memory.view import View
from service.rules.records import ENDED_SESSION_SECONDS, KEPT_KEYS_SECONDS, Corrupt

log = logging.getLogger("milepost.journal")


class JournalMemory:
    """The records as of the last commit and, in ``view``, as of the groups that are under way.

    ``head`` is the head after the last commit. ``proof`` and ``bound`` count the groups that are under way in.
    ``unwritten``: the keys of records that could not be written back to the store, and are right in memory alone.
    ``clock`` gives monotonic seconds, ``wall`` the time for people to read; ``epoch_floor`` and ``most_uploads``: see
    `JournalSettings`.
    """

    def __init__(
        self, name: str, clock: Callable[[], float], wall: Callable[[], str], *, epoch_floor: int, most_uploads: int
    ) -> None:
        self.name = name
        self.head = Head(name, 0, 0, "")
        self.view = View(State())
        self.proof = Proof()
        self.bound = Bound(None)
        self.unwritten: set[str] = set()
        self._damaged: frozenset[str] = frozenset()
        self._ages = RevisionAges(ENDED_SESSION_SECONDS)
        self._clock = clock
        self._wall = wall
        self._epoch_floor = epoch_floor
        self._most_uploads = most_uploads

    def begin(self, loaded: Loaded, head: Head, most_bytes: int | None) -> None:
        """Remember what was loaded under ``head`` and nothing else. ``most_bytes``: how much there may be of it."""
        self.head = head
        self.view = View(loaded.state)
        self.proof = loaded.proof
        self.bound = Bound(most_bytes)
        self.bound.taken = loaded.size
        self.unwritten = set()
        self._ages = RevisionAges(ENDED_SESSION_SECONDS)
        self._ages.note(self._clock(), head.revision)

    @property
    def damaged(self) -> list[str]:
        """The keys of records that do not prove themselves, so that they are not served, and of those `unwritten`."""
        corrupt = (key for key in self._damaged if isinstance(self.view.state.get(key), Corrupt))
        return sorted({*corrupt, *self.unwritten})

    def name_damage(self) -> None:
        """Look which records do not prove themselves, and log each."""
        self._damaged = frozenset(self.view.state.damaged())
        for key in self.damaged:
            record = self.view.state.get(key)
            if isinstance(record, Corrupt):
                log.error("the record %s of journal %s is damaged and not served: %s", key, self.name, record.reason)

    def contexts(self) -> Callable[[int], DecisionContext]:
        """What decisions may know of now, by the revision that they would make: many are made at once."""
        now, lineage, wall = self._clock(), self.head.lineage, self._wall()
        keys_horizon = self._ages.before(now - KEPT_KEYS_SECONDS)
        sessions_horizon = self._ages.before(now - ENDED_SESSION_SECONDS)
        floor, most, landed = self._epoch_floor, self._most_uploads, self.head.revision

        def context(revision: int) -> DecisionContext:
            return DecisionContext(revision, lineage, wall, keys_horizon, sessions_horizon, floor, most, landed)

        return context

    def stage(self, group: Group) -> None:
        """Count a group in that is about to be written. Its changes are staged on the view already."""
        group.replaced = self.proof.apply(group.values.items())
        group.digest = self.proof.digest
        self.bound.taken += group.growth

    def land(self, group: Group) -> None:
        """The group was committed: it is what readers see from now on."""
        self.take_in(group)
        self.head = replace(self.head, revision=group.revision, digest=group.digest)
        self.unwritten.difference_update(group.values)
        self._ages.note(self._clock(), group.revision)

    def take_in(self, group: Group) -> None:
        """Show the group's changes to readers. An inventory tells of what is there now, and of nothing later."""
        self.view.land(group.number)
        for member in group.members:
            if member.accepted.inventory is not None:
                member.accepted.inventory.snapshot = self.view.state.snapshot()

    def withdraw(self, landed: Sequence[Group], others: Sequence[Group]) -> None:
        """Of the groups under way these ``landed``, and the ``others`` never will."""
        for group in reversed(others):
            self.proof.put_back(group.replaced)
            self.bound.taken -= group.growth
        for group in landed:
            self.take_in(group)
        self.view.withdraw()

    def settle(self, head: Head, unwritten: Sequence[str]) -> None:
        """What is remembered stands in the store under ``head``, but for the records that could not be written."""
        self.head = head
        self.unwritten = set(unwritten)
        self._ages.note(self._clock(), head.revision)
        self.name_damage()

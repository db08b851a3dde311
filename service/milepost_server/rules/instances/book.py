"""What is recorded of the state stores of one job: each instance, where it is loaded, and its newest snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sortedcontainers import SortedDict


class Instance(NamedTuple):
    """A state store of a run of a query, as Spark's ``StateStoreProviderId`` names it. Instances sort by run first."""

    run: str
    operator: int
    partition: int
    name: str


class Location(NamedTuple):
    """The executor that has an instance loaded, and the host that it runs on."""

    host: str
    executor: str


@dataclass(slots=True, eq=False)
class Entry:
    """What is known of one instance. Times are monotonic seconds.

    ``since`` is when this record first heard of the instance, ``confirmed`` when its executor last said that it has it.
    ``snapshot`` is the version of the newest snapshot that was told of, at ``snapshot_at``; None before the first.
    """

    instance: Instance
    location: Location
    since: float
    confirmed: float
    snapshot: int | None = None
    snapshot_at: float = 0.0

    def lags(self, version: int, versions: int, seconds: float, now: float) -> bool:
        """Return whether the newest snapshot is more than ``versions`` behind ``version``, and is that old.

        An instance of which no snapshot was told is at version 0 since this record first heard of it: after a change of
        leader nobody is said to lag for what was only forgotten.
        """
        behind = version - (self.snapshot or 0) > versions
        return behind and now - max(self.since, self.snapshot_at) >= seconds


class Book:
    """The instances of one job under one epoch.

    ``id`` is another one for each book. An executor that shows it proves that what it does not find here was taken from
    it, and not merely forgotten. ``used`` is when the book was last used, in monotonic seconds.
    """

    __slots__ = ("entries", "epoch", "id", "used")

    def __init__(self, epoch: int, id_: str, used: float) -> None:
        self.epoch = epoch
        self.id = id_
        self.used = used
        self.entries: SortedDict[Instance, Entry] = SortedDict()

    def after(self, last: Instance, run: str | None = None) -> Iterator[Instance]:
        """Yield the instances that come after ``last``, in order; only those of ``run`` if that is given."""
        for instance in self.entries.irange(last, inclusive=(False, True)):
            if run is not None and instance.run != run:
                return
            yield instance


FIRST = Instance("", -1, -1, "")
"""Comes before every instance."""


def first_of(run: str | None) -> Instance:
    """Return what comes before every instance of a run, or before all instances if that is None."""
    return FIRST if run is None else FIRST._replace(run=run)

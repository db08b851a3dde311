"""What the rules answer: `Accepted`, `Refused` or `Blocked`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from milepost.wire import Code, Outcome
from service.rules.memory.snapshots import Snapshot
from service.rules.records import Stored

Changes = Mapping[str, Stored | None]
"""Records to write by key; None deletes the record."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is told to the caller: a JSON body, the handle's version where there is one, and whether something was
    created.
    """

    body: Mapping[str, Any] = field(default_factory=dict)
    version: str | None = None
    created: bool = False
    replayed: bool = False


@dataclass(slots=True)
class Inventory:
    """All handles of ``store``, to be told of: too many to be gathered in a decision.

    ``snapshot`` is taken when the changes land, and nothing lands together with them after them. It stays None for a
    replay, which tells what is there then.
    """

    store: str
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request is granted. No ``changes``: it is answered from what is there.

    ``discards``: blobs that were replaced by the changes, to be discarded after they have lingered for readers on the
    way. ``orphans``: blobs that lost their pointer long ago, or were never given one, and are the collector's.
    ``finish``: a removal has begun (now or earlier) and is to be finished before the caller is answered.
    ``inventory``: the answer consists of that. ``depends``: see `Decision`.
    """

    answer: Answer
    changes: Changes = field(default_factory=dict)
    discards: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    finish: FinishNeeded | None = None
    inventory: Inventory | None = None
    depends: int = 0


@dataclass(frozen=True, slots=True)
class FinishNeeded:
    """A removal that has begun: discard ``blob``, then finish the removal of ``name`` at ``version``."""

    store: str
    name: str
    version: str
    blob: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The request is refused; nothing changes. None is what is usual for the code. ``depends``: see `Decision`."""

    code: Code
    detail: str
    extras: Mapping[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None
    retryable: bool | None = None
    depends: int = 0


@dataclass(frozen=True, slots=True)
class Blocked:
    """The request can be decided only after another removal was finished. ``depends``: see `Decision`."""

    finish: FinishNeeded
    depends: int = 0


Decision = Accepted | Refused | Blocked
"""What comes of a request. ``depends`` is the number of the latest group under way that was looked at, 0 for none: an
answer without changes waits until that group has landed, since it is told of committed state only.
"""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """Everything that a decision may know of time and leadership.

    ``revision`` is the one that the request's change will get. ``wall`` is for people to read (RFC 3339, UTC);
    nothing is compared with it. ``keys_horizon``, ``sessions_horizon``: what stands at or before these revisions is
    older than the time for which answers, and ended sessions, are kept. ``epoch_floor``: granted epochs are above
    it (set after a restore from a backup). ``most_uploads``: how many a store may have pending. ``landed``: what stands
    at or before this revision is committed, and known to be.
    """

    revision: int
    lineage: str
    wall: str
    keys_horizon: int = 0
    sessions_horizon: int = 0
    epoch_floor: int = 0
    most_uploads: int = 1000
    landed: int = 0

    @property
    def version(self) -> str:
        """The version of a handle whose state is set by this change; unique for ever."""
        return f"{self.lineage}.{self.revision}"

"""Define what the rules answer: `Accepted`, `Refused` or `Blocked`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from milepost.wire import Code, Outcome
from milepost_server.memory.snapshots import Snapshot
from milepost_server.memory.view import View
from milepost_server.model.records import Stored
from milepost_server.model.requests.base import Request

Changes = Mapping[str, Stored | None]
"""Changes are records to write by key; None deletes the record."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the caller: a JSON body, the handle's version where there is one, and whether something was
    created.
    """

    body: Mapping[str, Any] = field(default_factory=dict)
    version: str | None = None
    created: bool = False
    replayed: bool = False


@dataclass(slots=True)
class Inventory:
    """An inventory asks for an answer with all handles of ``store``: too many to be gathered in a decision.

    ``snapshot`` is taken when the changes are committed, and no later change is committed together with them. It stays
    None for a replay, which shows the handles of that moment.
    """

    store: str
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request is granted. Without ``changes`` it is answered from what is there.

    ``discards`` are blobs that the changes replace, to be discarded after they have lingered for readers on the way.
    ``orphans`` are blobs that lost their pointer long ago, or never had one, and are left to the collector. ``finish``
    is a removal that has begun (now or earlier) and must be finished before the caller is answered. If ``inventory`` is
    set, it makes up the answer. ``depends`` is explained at `Decision`.
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
    """A removal that has begun: ``blob`` must be discarded, then the removal of ``name`` at ``version`` finished."""

    store: str
    name: str
    version: str
    blob: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The request is refused, and nothing changes. None means what is usual for the code; see `Decision`.

    ``until_trimmed`` says that the request may pass once the tree of its store is trimmed: what is in its way is dead,
    and can be dropped at once.
    """

    code: Code
    detail: str
    extras: Mapping[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None
    retryable: bool | None = None
    depends: int = 0
    until_trimmed: bool = False


@dataclass(frozen=True, slots=True)
class Blocked:
    """The request can be decided only after another removal was finished. ``depends`` is explained at `Decision`."""

    finish: FinishNeeded
    depends: int = 0


Decision = Accepted | Refused | Blocked
"""A decision is what comes of a request. ``depends`` is the number of the latest group in flight that it looked at, 0
for none. An answer without changes waits until that group has been committed, since it may only show committed state.
"""


Handler = Callable[[View, Any, "DecisionContext"], Decision]
"""The rule of one class of requests: a pure function of what is stored, the request, and the context."""

Handlers = Mapping[type[Request], Handler]


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """The context is everything that a decision may know of time and leadership.

    ``revision`` is the one that the request's change will get. ``wall`` is for people to read (RFC 3339, UTC); nothing
    is compared with it. What is at or before ``keys_horizon`` and ``sessions_horizon`` is older than the time for which
    answers, and ended sessions, are kept. Granted epochs are above ``epoch_floor`` (set after a restore from a backup).
    ``most_uploads`` is how many a store may have pending, and ``kept_snapshots`` how many snapshots a tree keeps of
    each query. What is at or before ``committed`` is known to be committed.
    """

    revision: int
    lineage: str
    wall: str
    keys_horizon: int = 0
    sessions_horizon: int = 0
    epoch_floor: int = 0
    most_uploads: int = 1000
    committed: int = 0
    kept_snapshots: int = 10

    @property
    def version(self) -> str:
        """Return the version of a handle whose state is set by this change; it is unique for ever."""
        return f"{self.lineage}.{self.revision}"

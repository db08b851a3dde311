"""Define the results of the rules: `Accepted`, `Refused` or `Blocked`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import msgspec

from milepost.wire import Code, Outcome
from milepost_server.memory.snapshots import Snapshot
from milepost_server.memory.view import View
from milepost_server.model.paths import is_path_key
from milepost_server.model.records import Stored
from milepost_server.model.requests.base import Request
from milepost_server.model.trees import TreePath

Changes = Mapping[str, Stored | None]
"""The records to write, by key; None deletes the record."""


def only_paths(changes: Changes) -> bool:
    """Return whether nothing but records of paths is changed."""
    for key, record in changes.items():
        if type(record) is not TreePath and not (record is None and is_path_key(key)):
            return False
    return True


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The answer to the caller: a JSON body, the version of a handle, and whether something was created."""

    body: Mapping[str, Any] = {}
    version: str | None = None
    created: bool = False
    replayed: bool = False


@dataclass(slots=True)
class Inventory:
    """Part of a decision whose answer has all handles of ``store``. The handles are collected after the commit, since
    there may be too many for one decision.

    ``snapshot`` is taken right after the commit of the request's changes, before any later change. For a replay it is
    None, and the answer shows the handles at the time of the replay.
    """

    store: str
    snapshot: Snapshot | None = None


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The request is granted. Without ``changes``, the answer comes from the current state.

    ``discards`` are blobs that the changes replace; they are deleted after a delay for readers that still read them.
    ``orphans`` are blobs that no record needs any more, but that a client may still be putting or reading; they are
    deleted after a longer delay. ``finish`` is a removal that has begun (now or earlier) and must be finished before
    the caller is answered. If ``inventory`` is set, the answer is made from it. `Decision` explains ``depends``.
    """

    answer: Answer
    changes: Changes = {}
    discards: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    finish: FinishNeeded | None = None
    inventory: Inventory | None = None
    depends: int = 0


class FinishNeeded(msgspec.Struct, frozen=True, gc=False):
    """A removal that has begun. To finish it, first delete ``blob``, then submit `FinishRemoval` for ``name`` at
    ``version``.
    """

    store: str
    name: str
    version: str
    blob: str


@final
class Refused(msgspec.Struct, frozen=True, gc=False):
    """The request is refused, and nothing changes. For ``outcome`` and ``retryable``, None means the default of the
    code.

    ``until_trimmed``: the request may pass once the tree of its store is trimmed, because only deleted entries prevent
    it. `Decision` explains ``depends``.
    """

    code: Code
    detail: str
    extras: Mapping[str, Any] = {}
    outcome: Outcome | None = None
    retryable: bool | None = None
    depends: int = 0
    until_trimmed: bool = False


class Blocked(msgspec.Struct, frozen=True, gc=False):
    """The request can be decided only after a removal that has begun is finished. `Decision` explains ``depends``."""

    finish: FinishNeeded
    depends: int = 0


Decision = Accepted | Refused | Blocked
"""The result of deciding a request. ``depends`` is the number of the latest group in flight whose changes the decision
read, 0 for none. An answer without changes waits until that group has been committed, since it may only show committed
state.
"""


Handler = Callable[[View, Any, "DecisionContext"], Decision]
"""The rule for one class of requests: a pure function of the stored state, the request, and the context."""

Handlers = Mapping[type[Request], Handler]


class DecisionContext(msgspec.Struct, frozen=True, gc=False):
    """What a decision may know besides the records: facts about time and leadership, and limits.

    ``revision`` is the revision that the request's change will get. ``wall`` is the time of day (RFC 3339, UTC), which
    is stored for users; no answer to a request depends on it, only which old pages of a job's history are dropped.
    Answers given at revisions up to ``keys_horizon``, and sessions that ended at revisions up to ``sessions_horizon``,
    need not be kept any longer. Granted epochs are above ``epoch_floor`` (set after a restore from a backup).
    ``most_uploads`` is how many pending uploads a store may have, and ``kept_snapshots`` how many snapshots of each
    query a tree keeps. All revisions up to ``committed`` are known to be committed.

    ``dry``: nobody uses the changes of the decision, so it need not have them.
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
    dry: bool = False

    @property
    def version(self) -> str:
        """Return the version of a handle whose state is set by this change; no version is used twice."""
        return f"{self.lineage}.{self.revision}"

"""Build groups: waiting requests are decided in order, and the changes of many are folded into one atomic write.

A group is full once it has as many requests, or as many bytes, as the store takes in one write (`GroupLimits`). It is
closed earlier once deciding has taken `WORK_SECONDS`: the event loop serves nobody else meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from milepost.wire import Code
from milepost_backends.contract import Change, Commit, GroupLimits, Head
from milepost_server.journal.commit.room import SizeLimit
from milepost_server.journal.pending import Decide, PendingRequest
from milepost_server.journal.proof import Replaced
from milepost_server.memory.view import View
from milepost_server.model.records import encode
from milepost_server.rules.decisions import Accepted, Decision, DecisionContext, Refused

WORK_SECONDS: Final = 0.02
"""How long the requests of one group are decided. That of ordinary requests, of which 256 take 15 ms, is whole.

A request that looks through thousands of paths takes as long as a hundred others, be it refused or not.
"""


@dataclass(frozen=True, slots=True)
class Member:
    """A request that is part of a group, with the answer that it will get and the revision of its change."""

    pending: PendingRequest
    accepted: Accepted
    revision: int


@dataclass(frozen=True, slots=True)
class NoOpRequest:
    """A request that changes nothing. It may be answered once the group number ``depends`` has been committed; at
    once if 0.
    """

    pending: PendingRequest
    decision: Decision
    depends: int
    """The latest group in flight whose changes the decision looked at; an answer may show committed state only."""


@dataclass(eq=False, slots=True)
class Group:
    """One atomic write of many requests: it moves the journal from ``head`` to ``revision`` and ``digest``.

    ``values`` has the encoded records by key, None for one that is deleted; ``size`` is their size in bytes, and
    ``growth`` by how many bytes they make the journal larger (see `SizeLimit`). ``replaced`` has the hashes that its
    records had before. ``task`` is the running commit, ``outcome`` how it ended.
    """

    number: int
    head: Head
    revision: int
    members: list[Member] = field(default_factory=list)
    values: dict[str, bytes | None] = field(default_factory=dict)
    size: int = 0
    growth: int = 0
    digest: str = ""
    """The digest of all records once the group has been committed; `JournalMemory.stage` sets it when the group is
    sent.
    """
    replaced: Replaced = field(default_factory=dict)
    """These hashes put `Proof` back to where it was, if the group is not committed."""
    task: asyncio.Task[None] | None = None
    outcome: Commit | None = None

    @property
    def changes(self) -> list[Change]:
        """The folded changes: for each key, the last value that it got in this group."""
        return [Change(key, value) for key, value in self.values.items()]

    def take(self, pending: PendingRequest, accepted: Accepted, encoded: dict[str, bytes | None]) -> None:
        """Add an accepted request to the group; its change raises the revision by one."""
        self.revision += 1
        self.members.append(Member(pending, accepted, self.revision))
        self.values.update(encoded)
        self.size += _size(encoded)


def build(
    queue: deque[PendingRequest],
    view: View,
    group: Group,
    limits: GroupLimits,
    decide: Decide,
    context_at: Callable[[int], DecisionContext],
    size_limit: SizeLimit,
    clock: Callable[[], float],
) -> list[NoOpRequest]:
    """Decide waiting requests in order until ``group`` is full or closed, and return those that change nothing.

    A request changes nothing if it is refused, if it asks for what is so already, or if it is the retry of one that was
    answered before. The changes of the others are staged on ``view``. Epochs, versions and locks are checked here, on
    the state that will be there when the group is committed, not on the state when the request came in. What no longer
    fits into ``group`` stays in ``queue``, and so does what is left when the time for this work is over by ``clock``
    (monotonic seconds); one request at least is decided.
    """
    no_ops: list[NoOpRequest] = []
    end = clock() + WORK_SECONDS
    while queue and len(group.members) + len(no_ops) < limits.requests:
        if (group.members or no_ops) and clock() >= end:
            break
        pending = queue.popleft()
        if pending.done.done():
            continue  # it was withdrawn at its deadline
        decision = decide(view, pending.request, context_at(group.revision + 1))
        if not isinstance(decision, Accepted) or not decision.changes:
            no_ops.append(NoOpRequest(pending, decision, decision.depends))
            continue
        encoded = {key: None if record is None else encode(key, record) for key, record in decision.changes.items()}
        if too_large := _oversized(encoded, limits):
            no_ops.append(NoOpRequest(pending, too_large, decision.depends))
            continue
        growth = size_limit.growth(view, encoded)
        if full := size_limit.refusal(pending.request, growth, group.growth):
            no_ops.append(NoOpRequest(pending, full, decision.depends))
            continue
        if group.members and group.size + _size(encoded) > limits.bytes:
            queue.appendleft(pending)  # it begins the next group
            break
        pending.queued = False  # from here on it may be written, so it cannot be withdrawn any more
        group.take(pending, decision, encoded)
        group.growth += growth
        view.stage(decision.changes, group.number)
        if decision.inventory is not None:
            break  # the answer is a snapshot of the state right after the group, so no later request may join it
    return no_ops


def _size(encoded: dict[str, bytes | None]) -> int:
    return sum(len(key) + len(value or b"") for key, value in encoded.items())


def _oversized(encoded: dict[str, bytes | None], limits: GroupLimits) -> Refused | None:
    for key, value in encoded.items():
        if value is not None and len(value) > limits.value_bytes:
            return Refused(
                Code.TOO_LARGE,
                f"the record {key!r} would have {len(value)} bytes; the store takes {limits.value_bytes} at most",
            )
    return None

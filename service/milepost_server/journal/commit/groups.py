"""Build groups: decide waiting requests in order, and combine the changes of many requests into one atomic write.

A group is full once it has as many requests, or as many bytes, as the pointer store takes in one write (`GroupLimits`).
A group is closed earlier once deciding has taken `WORK_SECONDS`, because the event loop does no other work meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from milepost.wire import Code
from milepost_backends.contract import Change, Commit, GroupLimits, Head, Unknown
from milepost_server.journal.commit.room import SizeLimit
from milepost_server.journal.pending import Decide, PendingRequest
from milepost_server.journal.proof import Replaced
from milepost_server.memory.view import View
from milepost_server.model.records import encode
from milepost_server.model.requests.moves import FinishArrival
from milepost_server.rules.decisions import Accepted, Decision, DecisionContext, Refused

WORK_SECONDS: Final = 0.02
"""The seconds that deciding the requests of one group may take. A group of 256 ordinary requests takes 15 ms, but a
single request that reads thousands of paths takes as long as a hundred ordinary ones.
"""


_change: Final = tuple.__new__
"""Makes a `Change` of its members, without a call of Python's."""


class Member(msgspec.Struct, frozen=True, gc=False):
    """A request that is part of a group, with its answer and the revision of its change."""

    pending: PendingRequest
    accepted: Accepted
    revision: int


class NoOpRequest(msgspec.Struct, frozen=True, gc=False):
    """A request that changes nothing. It may be answered once group number ``depends`` has been committed, or at once
    if ``depends`` is 0.
    """

    pending: PendingRequest
    decision: Decision
    depends: int
    """The number of the latest group in flight whose changes the decision read. The answer waits for that group, since
    it may only show committed state.
    """


@dataclass(eq=False, slots=True)
class Group:
    """One atomic write with the changes of many requests, which moves the journal from ``head`` to ``revision`` and
    ``digest``.

    ``values`` has the encoded records by key, None for a deletion; ``size`` is their size in bytes, and ``growth`` is
    the number of bytes by which they make the journal larger (see `SizeLimit`). ``replaced`` has the hashes of the
    records that this group replaces. ``running`` is the commit, ``outcome`` how it ended.
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
    """The hashes that restore `Proof` to its state before this group, if the group is not committed."""
    running: asyncio.Future[Commit] | None = None
    seconds: float = 0.0
    """The time that the commit may take."""
    deadline: float = 0.0
    """When this time is over, in monotonic seconds."""
    late: bool = False
    """Whether the commit was ended because its time was over."""

    def begin(self, commit: Awaitable[Commit], seconds: float, deadline: float) -> asyncio.Future[Commit]:
        """Note the running commit, which may take ``seconds``, until ``deadline``, and return its future."""
        self.running = running = commit if isinstance(commit, asyncio.Future) else asyncio.ensure_future(commit)
        self.seconds, self.deadline = seconds, deadline
        return running

    def end_late(self) -> None:
        """Stop waiting for the commit, because its time is over. It may still be committed."""
        self.late = True
        self.cancel()

    def cancel(self) -> None:
        """Stop waiting for the commit, which may still be committed."""
        if self.running is not None:
            self.running.cancel()

    @property
    def outcome(self) -> Commit | None:
        """How the commit ended; None while it runs, and if it was cancelled or failed unexpectedly."""
        running = self.running
        if running is None or not running.done():
            return None
        cancelled = running.cancelled()
        error = None if cancelled else running.exception()
        if not cancelled and error is None:
            return running.result()
        late = self.late if cancelled else isinstance(error, TimeoutError)
        return Unknown(f"the store has not answered within {self.seconds} s") if late else None

    @property
    def fault(self) -> BaseException | None:
        """The unexpected error of the commit, once it has ended; None if it had none."""
        error = None if self.running is None or self.running.cancelled() else self.running.exception()
        return None if isinstance(error, TimeoutError) else error

    @property
    def changes(self) -> list[Change]:
        """The combined changes: for each key, the last value that a request of this group gives it."""
        return [_change(Change, change) for change in self.values.items()]

    def take(
        self, pending: PendingRequest, accepted: Accepted, encoded: dict[str, bytes | None], size: int, revision: int
    ) -> None:
        """Add an accepted request to the group, which raises the revision to ``revision``. ``encoded`` has ``size``
        bytes.
        """
        self.revision = revision
        self.members.append(Member(pending, accepted, self.revision))
        if self.values:
            self.values.update(encoded)
        else:
            self.values = encoded
        self.size += size


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

    A request changes nothing if it is refused, if its change is already in effect, or if it is the retry of a request
    that was answered before. The changes of the other requests are staged on ``view``. The decision checks epochs,
    versions and locks against the state at the time of the group's commit, not against the state when the request came
    in. Requests that do not fit into ``group``, or that are left when the time for deciding is over by ``clock``
    (monotonic seconds), stay in ``queue``; at least one request is decided.
    """
    no_ops: list[NoOpRequest] = []
    members = group.members
    end = clock() + WORK_SECONDS
    while queue:
        if (members or no_ops) and (len(members) + len(no_ops) >= limits.requests or clock() >= end):
            break
        pending = queue.popleft()
        if pending.end is not None:
            continue  # the request was withdrawn at its deadline
        revision = group.revision + 1
        if type(pending.request) is FinishArrival:
            revision = max(revision, pending.request.above + 1)  # no change here has a revision of the copied records
        decision = decide(view, pending.request, context_at(revision))
        if not isinstance(decision, Accepted) or not decision.changes:
            no_ops.append(NoOpRequest(pending, decision, decision.depends))
            continue
        encoded: dict[str, bytes | None] = {}
        size = largest = 0
        for key, record in decision.changes.items():
            encoded[key] = value = None if record is None else encode(key, record)
            if value is not None:
                large = len(value)
                size += large
                if large > largest:
                    largest = large
            size += len(key)
        if largest > limits.value_bytes and (too_large := _oversized(encoded, limits)):
            no_ops.append(NoOpRequest(pending, too_large, decision.depends))
            continue
        growth = 0
        if size_limit.most is not None:
            growth = size_limit.growth(view, encoded)
            if full := size_limit.refusal(pending.request, growth, group.growth):
                no_ops.append(NoOpRequest(pending, full, decision.depends))
                continue
        if members and group.size + size > limits.bytes:
            queue.appendleft(pending)  # the group has no room for this request, which begins the next group
            break
        pending.queued = False  # the request may be written from now on, so it must not be withdrawn at its deadline
        group.take(pending, decision, encoded, size, revision)
        group.growth += growth
        view.stage(decision.changes, group.number)
        if decision.inventory is not None:
            break  # the answer shows the state right after this request, so no later request may join the group
    return no_ops


def _oversized(encoded: dict[str, bytes | None], limits: GroupLimits) -> Refused | None:
    for key, value in encoded.items():
        if value is not None and len(value) > limits.value_bytes:
            return Refused(
                Code.TOO_LARGE,
                f"the record {key!r} would have {len(value)} bytes; the store takes {limits.value_bytes} at most",
            )
    return None

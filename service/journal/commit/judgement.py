"""Settling: what became of groups whose outcome is in doubt.

The term is burnt first, so that nothing of the old one can land any more. Only then is the journal loaded. How many of
the groups in doubt landed is told by the digest of the head that was taken over; where a foreign hand changed that, by
the ids that the requests left in the records they changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backends.contract import CommitRefused, Head, Refusal
from milepost.errors import Problem
from milepost.wire import Code
from service.basics.problems import problem
from service.journal.commit.groups import Group
from service.journal.commit.room import grows
from service.journal.pending import PendingRequest
from service.rules.memory.state import State
from service.rules.memory.view import View
from service.rules.records import decode
from service.rules.requests import INTERNAL


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the groups in doubt: they landed; nobody waits for them, or the store refused them; they go on."""

    landed: list[Group]
    given_up: list[tuple[PendingRequest, Problem]]
    again: list[PendingRequest]


def judge(flight: Sequence[Group], count: int, now: float) -> Verdict:
    """Judge the groups in flight, of which the first ``count`` landed and the others never will."""
    verdict = Verdict(list(flight[:count]), [], [])
    for position, group in enumerate(flight[count:]):
        error = certain_refusal(group) if position == 0 else None
        for pending in (member.pending for member in group.members):
            if error is not None and not _spared(pending, error):
                verdict.given_up.append((pending, error))
            elif pending.deadline <= now:
                late = problem(Code.STORAGE_UNAVAILABLE, "the storage did not take the write in time")
                verdict.given_up.append((pending, late))
            else:
                verdict.again.append(pending)
    return verdict


def _spared(pending: PendingRequest, error: Problem) -> bool:
    """Whether a request that frees room is tried once more: beside others that grow, or before the store made room for
    it, it was refused along with them.
    """
    if error.code is not Code.STORAGE_FULL or grows(pending.request) or pending.spared:
        return False
    pending.spared = True
    return True


def landed(flight: Sequence[Group], head: Head, state: State) -> int:
    """How many of the groups in flight, from the first on, have landed.

    ``head`` keeps the digest of the last group that landed. If it is none of theirs, a foreign hand was at it; then
    ``state``, what was loaded under it, tells. Each group is conditional on the one before it, so the last that left a
    trace proves all before it. Later groups may have pushed an id out of its record, which is why the search runs from
    the end.
    """
    digests = [group.digest for group in flight]
    if head.digest in digests:
        return len(digests) - digests[::-1].index(head.digest)
    if flight and head.digest == flight[0].head.digest:
        return 0
    view = View(state)
    return next((count for count in range(len(flight), 0, -1) if _left_trace(view, flight[count - 1])), 0)


def without_settling(flight: Sequence[Group]) -> Problem:
    """The error for groups that this process will not settle, since it does not lead any more.

    Where the first was refused none can land: each is conditional on the one before it.
    """
    if flight and isinstance(flight[0].outcome, CommitRefused):
        return certain_refusal(flight[0]) or problem(Code.NO_LEADER, "another leader has taken over")
    return problem(Code.OUTCOME_UNKNOWN, "leadership was lost while the write was on its way")


def certain_refusal(group: Group) -> Problem | None:
    """The error for a group that the store refused for a reason of its own: it did not land and never will."""
    if not isinstance(group.outcome, CommitRefused):
        return None
    match group.outcome.reason:
        case Refusal.HEAD_MOVED:
            return None
        case Refusal.FULL:
            return problem(Code.STORAGE_FULL, group.outcome.detail)
        case Refusal.TOO_LARGE:
            return problem(Code.TOO_LARGE, group.outcome.detail)
        case Refusal.DENIED | Refusal.FAILED:
            return problem(Code.STORAGE_UNAVAILABLE, group.outcome.detail)


def _left_trace(view: View, group: Group) -> bool:
    for member in reversed(group.members):
        kept = view.answered(member.pending.request.scope)
        if kept is not None and kept.revision == member.revision:
            return True
    return _is_the_leaders_own(group) and _is_there(view, group)


def _is_the_leaders_own(group: Group) -> bool:
    return all(isinstance(member.pending.request, INTERNAL) for member in group.members)


def _is_there(view: View, group: Group) -> bool:
    """Whether each record is as the group was to leave it. The leader's own requests leave no answers; what they write
    carries their revision, and what they delete was there before.
    """
    return all(view.get(key) == (None if value is None else decode(key, value)) for key, value in group.values.items())

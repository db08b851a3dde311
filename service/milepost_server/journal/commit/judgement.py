"""Judge which groups were committed, of those whose outcome is in doubt.

The term is abandoned first, that is, given up for the next one, so that nothing of the old term can be committed any
more. Only then is the journal loaded. The digest of the head that was taken over says how many of the groups were
committed; if somebody else changed that digest, the ids that requests leave in the records they change say it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import CommitRefused, Head, Refusal
from milepost_server.basics.problems import problem
from milepost_server.journal.commit.groups import Group
from milepost_server.journal.commit.room import grows
from milepost_server.journal.pending import PendingRequest
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.records import decode


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the groups in doubt, and what is done about each of their requests.

    ``committed`` has the groups that were committed. ``given_up`` has requests that end with an error, because their
    deadline has passed or the store refused them; ``again`` has those that are to be committed again.
    """

    committed: list[Group]
    given_up: list[tuple[PendingRequest, Problem]]
    again: list[PendingRequest]


def judge(flight: Sequence[Group], count: int, now: float) -> Verdict:
    """Judge the groups in flight, of which the first ``count`` were committed and the others never will be.

    ``now`` is the monotonic time.
    """
    verdict = Verdict(list(flight[:count]), [], [])
    for position, group in enumerate(flight[count:]):
        error = certain_refusal(group) if position == 0 else None
        for pending in (member.pending for member in group.members):
            if error is not None and not _spared(pending, error):
                verdict.given_up.append((pending, error))
            elif pending.deadline <= now:
                late = problem(Code.STORAGE_UNAVAILABLE, "the storage did not take the write before its deadline")
                verdict.given_up.append((pending, late))
            else:
                verdict.again.append(pending)
    return verdict


def _spared(pending: PendingRequest, error: Problem) -> bool:
    """Return whether a request that frees room is tried once more, after its group was refused by a full store.

    Its group may have been refused for others that grow, or before the store gave up the room that it reserves.
    """
    if error.code is not Code.STORAGE_FULL or grows(pending.request) or pending.spared:
        return False
    pending.spared = True
    return True


def committed(flight: Sequence[Group], head: Head, state: State) -> int:
    """Return how many of the groups in flight, counted from the first, have been committed.

    ``head`` keeps the digest of the last group that was committed. If that is none of their digests, somebody else
    changed the head, and ``state``, which was loaded under it, decides. Each group is conditional on the one before it,
    so the last group that left a trace proves all before it. The search begins at the end, since later groups may have
    pushed an earlier id out of its record.
    """
    digests = [group.digest for group in flight]
    if head.digest in digests:
        return len(digests) - digests[::-1].index(head.digest)
    if flight and head.digest == flight[0].head.digest:
        return 0
    view = View(state)
    return next((count for count in range(len(flight), 0, -1) if _left_trace(view, flight[count - 1])), 0)


def without_resolving(flight: Sequence[Group]) -> Problem:
    """Return the error for groups that this process will not resolve, since it does not lead any more.

    If the first one was refused, none can be committed, for each is conditional on the one before it.
    """
    if flight and isinstance(flight[0].outcome, CommitRefused):
        return certain_refusal(flight[0]) or problem(Code.NO_LEADER, "another replica has taken the journal over")
    return problem(Code.OUTCOME_UNKNOWN, "leadership was lost while the write was in flight")


def certain_refusal(group: Group) -> Problem | None:
    """Return the error for a group that the store refused for a reason of its own; None for any other outcome.

    Such a group was not committed and never will be.
    """
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
    """Return whether the loaded records show that the group was committed: by ids of its requests, or as
    `_is_there` does.
    """
    for member in reversed(group.members):
        kept = view.answered(member.pending.request.scope)
        if kept is not None and kept.revision == member.revision:
            return True
    return _is_the_leaders_own(group) and _is_there(view, group)


def _is_the_leaders_own(group: Group) -> bool:
    return all(member.pending.request.by_leader for member in group.members)


def _is_there(view: View, group: Group) -> bool:
    """Return whether each record is as the group was to leave it.

    This decides for the leader's own requests, which leave no ids in records. What they write carries their revision,
    and what they delete was there before.
    """
    return all(view.get(key) == (None if value is None else decode(key, value)) for key, value in group.values.items())

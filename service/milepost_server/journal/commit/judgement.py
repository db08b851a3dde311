"""Judge which groups were committed, of the groups whose outcome is in doubt.

The leader first abandons its term, that is, takes the next one, so that nothing of the old term can be committed any
more. Only then does it load the journal. The digest of the head that was taken over shows how many of the groups were
committed. If another process changed that digest, the ids that requests leave in the records they change show it.
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
    """What became of the groups in doubt, and what the leader does with each of their requests.

    ``committed`` has the groups that were committed. ``given_up`` has requests that end with an error, because their
    deadline has passed or the store refused them; ``again`` has the requests that the leader commits again.
    """

    committed: list[Group]
    given_up: list[tuple[PendingRequest, Problem]]
    again: list[PendingRequest]


def judge(flight: Sequence[Group], count: int, now: float) -> Verdict:
    """Judge the groups in flight, of which the first ``count`` were committed and the others never will be.

    ``now`` is the monotonic time in seconds.
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
    """Return whether a request that frees room is tried once more, after a full store refused its group.

    The store may have refused the group because of other requests in it that grow, or before the store released the
    room that it reserves.
    """
    if error.code is not Code.STORAGE_FULL or grows(pending.request) or pending.spared:
        return False
    pending.spared = True
    return True


def committed(flight: Sequence[Group], head: Head, state: State) -> int:
    """Return how many of the groups in flight, counted from the first, have been committed.

    ``head`` has the digest of the last committed group. If that is none of their digests, another process changed the
    head, and the function looks for the groups' changes in ``state``, which was loaded under that head. Each group is
    conditional on the group before it, so the last group with a trace in ``state`` proves all groups before it. The
    search begins at the last group, since later groups may have pushed an earlier id out of its record.
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

    If the store refused the first group, none can be committed, for each is conditional on the group before it.
    """
    if flight and isinstance(flight[0].outcome, CommitRefused):
        return certain_refusal(flight[0]) or problem(Code.NO_LEADER, "another replica has taken the journal over")
    return problem(Code.OUTCOME_UNKNOWN, "leadership was lost while the write was in flight")


def certain_refusal(group: Group) -> Problem | None:
    """Return the error for a group that the store refused for a reason other than a moved head; else None.

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
    """Return whether the loaded records show that the group was committed: by the ids of its requests, or for the
    leader's own requests by the content of the records (`_is_there`).
    """
    for member in reversed(group.members):
        kept = view.answered(member.pending.request.scope)
        if kept is not None and kept.revision == member.revision:
            return True
    return _is_the_leaders_own(group) and _is_there(view, group)


def _is_the_leaders_own(group: Group) -> bool:
    return all(member.pending.request.by_leader for member in group.members)


def _is_there(view: View, group: Group) -> bool:
    """Return whether each record is as the group would leave it.

    This check is for the leader's own requests, which leave no ids in records. The records that they write carry the
    revision of the write, and the records that they delete existed before.
    """
    return all(view.get(key) == (None if value is None else decode(key, value)) for key, value in group.values.items())

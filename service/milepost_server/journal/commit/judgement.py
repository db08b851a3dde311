"""Find out which groups were committed, after the outcome of their writes was unknown.

To find that out, the leader first takes the journal over under the next term, so that no write of the old term can be
committed any more, and then loads the journal. The digest in the stored head shows how many of the groups were
committed. If another process has changed that digest, the loaded records show it: each change leaves the id of its
request in a record.
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
    """What became of the groups whose outcome was unknown, and what the leader does with each of their requests.

    ``committed`` has the groups that were committed. ``given_up`` has requests that end with an error, because their
    deadline has passed or the pointer store refused them; ``again`` has the requests that the leader commits again.
    """

    committed: list[Group]
    given_up: list[tuple[PendingRequest, Problem]]
    again: list[PendingRequest]


def judge(flight: Sequence[Group], count: int, now: float) -> Verdict:
    """Return what happens to the requests of the groups in flight. The first ``count`` groups were committed; the
    others certainly never will be.

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
    """Return whether a request that frees room is tried once more, after a full pointer store refused its group.

    The pointer store may have refused the group because of other requests in the group, which make the journal larger,
    or before it released the room that it reserves for removals.
    """
    if error.code is not Code.STORAGE_FULL or grows(pending.request) or pending.spared:
        return False
    pending.spared = True
    return True


def committed(flight: Sequence[Group], head: Head, state: State) -> int:
    """Return how many of the groups in flight, counted from the first, have been committed.

    ``head`` has the digest of the last committed group. If no group has that digest, another process has changed the
    head. Then the function looks for the changes of the groups in ``state``, the records that were loaded under
    ``head``. Each group is conditional on the group before it, so a trace of one group proves all earlier groups too.
    The search begins with the last group, since a record keeps only the newest ids.
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

    If the pointer store refused the first group, no group can be committed, since each is conditional on the group
    before it. Otherwise the outcome is unknown.
    """
    if flight and isinstance(flight[0].outcome, CommitRefused):
        return certain_refusal(flight[0]) or problem(Code.NO_LEADER, "another replica has taken the journal over")
    return problem(Code.OUTCOME_UNKNOWN, "leadership was lost while the write was in flight")


def certain_refusal(group: Group) -> Problem | None:
    """Return the error for a group that the pointer store refused although the head had not changed, for example
    because it was full; else None.

    After such a refusal, the group certainly was not committed and never will be.
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
    """Return whether each record that the group changes is now as the group would leave it.

    This check is for the leader's own requests, which leave no ids in records. The records that they write carry the
    revision of the write, and the records that they delete existed before.
    """
    return all(view.get(key) == (None if value is None else decode(key, value)) for key, value in group.values.items())

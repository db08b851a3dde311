"""Who acts, and how a request gets through the journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from milepost.wire import Code
from service.journal import Served
from service.journal.claims import MaySubmit
from service.leader import Replica
from service.problems import problem, refusal
from service.rules.decisions import Accepted, Answer, Blocked, FinishNeeded, Refused
from service.rules.requests import Request

_MOST_REMOVALS_IN_THE_WAY = 8


@dataclass(frozen=True, slots=True)
class Caller:
    """The session that acts, the epoch it acts under, and the key and count of this attempt."""

    session: str
    epoch: int | None = None
    key: str | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with the revision and the term that it reflects."""

    answer: Answer
    revision: int
    term: int
    finish: FinishNeeded | None = None


def _always(_: Request) -> None:
    """Nothing stands against submitting."""


async def attempted(
    replica: Replica, caller: Caller, store: str, act: Callable[[MaySubmit], Awaitable[Reply]]
) -> Reply:
    """Run an attempt that does more than submit one request; a newer one of its key takes its place (see `Claims`)."""
    if caller.key is None:
        return await act(_always)
    scope = (store, caller.session, caller.key)
    reply, joined = await replica.journal.claims.run(scope, act, replica.settings.request_seconds)
    return replace(reply, answer=replace(reply.answer, replayed=True)) if joined else reply


async def perform(replica: Replica, request: Request, may_submit: MaySubmit = _always) -> Reply:
    """Submit a request and wait for its end; finish removals that stand in its way. Raises problems."""
    return reply_of(await decided(replica, request, None, may_submit))


async def decided(
    replica: Replica, request: Request, generation: int | None = None, may_submit: MaySubmit = _always
) -> Served:
    """The same, with a refusal of the rules told apart from a request that was never decided, which raises a
    problem.
    """
    deadline = replica.clock() + replica.settings.request_seconds
    for _ in range(_MOST_REMOVALS_IN_THE_WAY):
        may_submit(request)
        served = await replica.journal.wait(replica.journal.submit(request, deadline, generation))
        if not isinstance(served.decision, Blocked):
            return served
        await replica.removals.finish(served.decision.finish, deadline, Code.STORAGE_UNAVAILABLE)
    raise problem(Code.TOO_MANY_REQUESTS, "the handle is added and removed too quickly by others")


def reply_of(served: Served) -> Reply:
    """What the caller is told. Raises the problem of a refusal."""
    match served.decision:
        case Accepted() as accepted:
            return Reply(accepted.answer, served.revision, served.term, accepted.finish)
        case Refused() as refused:
            raise refusal(refused)
        case Blocked():
            raise TypeError("a blocked request is no answer")

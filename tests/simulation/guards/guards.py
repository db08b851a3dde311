"""Guards of the service, each of which can be taken out: then the simulator has to see something break.

Each is taken out by patching the real code where it stands. The names are those of the model's table where the model
has the guard.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from milepost.errors import Problem
from milepost.wire import Outcome
from milepost_backends.contract import Change, Head, PointerStore
from milepost_server.basics.problems import problem
from milepost_server.blobs import collector
from milepost_server.journal import Journal, PendingRequest, journal, loading
from milepost_server.journal.attempts import Attempts, MaySubmit
from milepost_server.journal.commit import groups, judgement, pipeline
from milepost_server.journal.commit.groups import Group, NoOpRequest
from milepost_server.journal.commit.pipeline import Pipeline
from milepost_server.journal.in_doubt.commits import InDoubtCommits
from milepost_server.journal.in_doubt.restoring import Restoring
from milepost_server.journal.lease import LeaderLease
from milepost_server.memory.view import View
from milepost_server.model.records import Corrupt, Handle, Session, Store, handle_key
from milepost_server.model.requests.base import BlobRef, KeyScope, Request
from milepost_server.model.requests.handles import Add, Clear, FinishRemoval, Remove, Replace
from milepost_server.operations.handles import HandleOperations
from milepost_server.operations.states import StateOperations, StateReader
from milepost_server.replica import maintenance, submitter
from milepost_server.replica import replica as leader
from milepost_server.replica.effects import Effects
from milepost_server.replica.leases import Leases
from milepost_server.replica.submitter import Caller, Reply
from milepost_server.rules import decide, guards, locks, replays
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Refused
from milepost_server.rules.handlers import handles
from tests.simulation.world.pointers import CoordinationStore, SimPointers

Patch = pytest.MonkeyPatch
TakeOut = Callable[[Patch], None]

# -- the coordination store ----------------------------------------------------------------------------------------


def whole_head(patch: Patch) -> None:
    """A commit is conditional on nothing."""
    patch.setattr(CoordinationStore, "is_current", lambda _self, _head: True)


def term_in_head(patch: Patch) -> None:
    """A commit is conditional on the revision alone, as on a bare dataVersion."""

    def is_current(self: CoordinationStore, head: Head) -> bool:
        return self.head(head.journal).revision == head.revision

    patch.setattr(CoordinationStore, "is_current", is_current)


def revision_in_head(patch: Patch) -> None:
    """A commit is conditional on the term alone."""

    def is_current(self: CoordinationStore, head: Head) -> bool:
        return self.head(head.journal).term == head.term

    patch.setattr(CoordinationStore, "is_current", is_current)


def take_over_writes_head(patch: Patch) -> None:
    """A take-over only looks at the head."""
    real = CoordinationStore.take_over

    def take_over(self: CoordinationStore, by: str, seen: Head) -> Head | None:
        return seen if seen.term else real(self, by, seen)

    patch.setattr(CoordinationStore, "take_over", take_over)


def load_after_take_over(patch: Patch) -> None:
    """The records are those from before the take-over, and are believed: no digest and no memory tells otherwise."""
    _believe_what_is_loaded(patch)
    real = SimPointers.take_over
    loaded: dict[SimPointers, list[Change]] = {}

    async def take_over(self: SimPointers, name: str, ours: Head | None = None) -> Head:
        head = await self._ask(lambda: self._store.head(name))
        loaded[self] = await self._ask(lambda: self._store.snapshot(head)) if head.term else []
        return await real(self, name, ours)

    async def load(self: SimPointers, _: Head) -> AsyncIterator[Change]:
        for change in loaded[self]:
            yield change

    patch.setattr(SimPointers, "take_over", take_over)
    patch.setattr(SimPointers, "load", load)


def _believe_what_is_loaded(patch: Patch) -> None:
    real_load, real_judge = loading.load, Pipeline.judge
    last: dict[PointerStore, loading.Loaded] = {}

    async def load(store: PointerStore, head: Head, on_progress: Callable[[], None]) -> loading.Loaded:
        last[store] = await real_load(store, head, on_progress)
        return last[store]

    def judge(self: Pipeline, count: int, now: float) -> judgement.Verdict:
        verdict = real_judge(self, count, now)
        loaded = last[self._store]
        self._memory.view, self._memory.proof = View(loaded.state), loaded.proof
        return verdict

    async def restore(_self: Restoring, head: Head, _: loading.Loaded) -> Head:
        return head

    patch.setattr(loading, "load", load)
    patch.setattr(loading, "verify", lambda *_: None)
    patch.setattr(Pipeline, "judge", judge)
    patch.setattr(Restoring, "restore", restore)


# -- the journal ---------------------------------------------------------------------------------------------------


def acknowledge_after_commit(patch: Patch) -> None:
    """A request is answered as soon as it is part of a group."""
    real = Group.take

    def take(
        self: Group,
        pending: PendingRequest,
        accepted: Accepted,
        encoded: dict[str, bytes | None],
        size: int,
        revision: int,
    ) -> None:
        real(self, pending, accepted, encoded, size, revision)
        pending.serve(accepted, self.revision, self.head.term)

    patch.setattr(Group, "take", take)


def reads_under_lease(patch: Patch) -> None:
    """A leader answers as long as nobody has told it that it lost."""
    patch.setattr(LeaderLease, "holds", lambda self: self.leadership is not None)


def reads_of_committed_state(patch: Patch) -> None:
    """Reads see what is on its way."""
    real = Journal.read

    def read(self: Journal) -> journal.Reading:
        reading = real(self)
        return journal.Reading(self._memory.view, reading.revision, reading.term)

    patch.setattr(Journal, "read", read)


def refusals_wait(patch: Patch) -> None:
    """A refusal is answered at once, whatever it depends on."""
    real = groups.build

    def build(*arguments: Any) -> list[NoOpRequest]:
        return [NoOpRequest(entry.pending, entry.decision, 0) for entry in real(*arguments)]

    patch.setattr(pipeline, "build", build)


def fence_before_judgement(patch: Patch) -> None:
    """A group in doubt is judged by what is there, without abandoning the term first."""
    real_resolve, real_take_over = InDoubtCommits._resolve, SimPointers.take_over
    looking: set[PointerStore] = set()

    async def resolve(self: InDoubtCommits) -> None:
        looking.add(self._store)
        try:
            await real_resolve(self)
        finally:
            looking.discard(self._store)

    async def take_over(self: SimPointers, name: str, ours: Head | None = None) -> Head:
        if self in looking:
            return await self._ask(lambda: self._store.head(name))
        return await real_take_over(self, name, ours)

    patch.setattr(InDoubtCommits, "_resolve", resolve)
    patch.setattr(SimPointers, "take_over", take_over)


def lease_after_take_over(patch: Patch) -> None:
    """The lease is looked at before a take-over, and not after it again."""
    patch.setattr(LeaderLease, "require", lambda _self, _leadership: None)


def judgement_of_groups(patch: Patch) -> None:
    """A group in doubt counts as not committed, its requests are decided again, and what it left is believed."""
    _believe_what_is_loaded(patch)
    patch.setattr(judgement, "committed", lambda *_: 0)


def newest_attempt_stands(patch: Patch) -> None:
    """An attempt whose bytes come in late submits its request, whatever a newer attempt was told."""

    async def run(_self: Attempts, _scope: KeyScope, act: Callable[[MaySubmit], Awaitable[Reply]], _: float) -> object:
        return await act(lambda _: None), False

    patch.setattr(Attempts, "run", run)


def blobs_of_this_leadership(patch: Patch) -> None:
    """A commit may name bytes that were put under an earlier leadership."""
    real = Journal.submit

    def submit(self: Journal, request: Request, deadline: float, generation: int | None = None) -> PendingRequest:
        del generation
        return real(self, request, deadline)

    patch.setattr(Journal, "submit", submit)


# -- the rules -----------------------------------------------------------------------------------------------------


def epoch_when_built(patch: Patch) -> None:
    """The epoch is checked when a request comes in, and not again when its group is built."""
    real, submit_for_real = guards.epoch_is_current, Journal.submit

    def submit(self: Journal, request: Request, deadline: float, generation: int | None = None) -> PendingRequest:
        if isinstance(request, Add | Replace | Remove | Clear) and request.attempt.number == 1:
            store = self._memory.view.state.get(f"stores/{request.store_name}")
            fenced = real(store if isinstance(store, Store) else Store(request.store_name), request.epoch)
            if fenced is not None:
                raise problem(fenced.code, fenced.detail, extras=fenced.extras)
        return submit_for_real(self, request, deadline, generation)

    patch.setattr(guards, "epoch_is_current", lambda *_: None)
    patch.setattr(Journal, "submit", submit)


def if_match(patch: Patch) -> None:
    """A version that is named is not compared."""
    patch.setattr(guards, "version_matches", lambda _handle, _version: None)


def lock_check(patch: Patch) -> None:
    """A removal looks at one's own lock alone."""
    real, holders = handles.remove, locks.holders

    def remove(view: View, request: Remove, context: DecisionContext) -> Decision:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(
                locks, "holders", lambda *of: tuple(holder for holder in holders(*of) if holder == request.session)
            )
            return real(view, request, context)

    kind: type[Request] = Remove
    patch.setitem(decide.HANDLERS, kind, remove)


def living_session(patch: Patch) -> None:
    """A session that has ended may go on."""
    real = guards.session_lives

    def session_lives(view: View, session: str, context: DecisionContext) -> Refused | None:
        return real(view, session, context) if view.session(session) is None else None

    patch.setattr(guards, "session_lives", session_lives)


def keys_remembered(patch: Patch) -> None:
    """Nobody looks for the first answer of a key."""
    patch.setattr(replays, "first_answer", lambda _view, _request: None)


def keys_survive_removal(patch: Patch) -> None:
    """The record of a removed handle goes at once, with the answers that it keeps."""

    def finish_removal(view: View, request: FinishRemoval, _: DecisionContext) -> Decision:
        old = view.handle(request.store_name, request.name)
        if isinstance(old, Corrupt) or old is None or not old.removing or old.version != request.version:
            return Accepted(Answer())
        return Accepted(Answer(), {handle_key(request.store_name, request.name): None})

    kind: type[Request] = FinishRemoval
    patch.setitem(decide.HANDLERS, kind, finish_removal)


def forgotten_keys_in_doubt(patch: Patch) -> None:
    """A retry is applied although its first answer may have been pushed out."""
    patch.setattr(guards, "retry_may_run", lambda _request, _evicted_answers_at, _moment: None)


def version_is_revision(patch: Patch) -> None:
    """A version is a small number that comes round again."""
    patch.setattr(DecisionContext, "version", property(lambda self: str(self.revision % 8)))


# -- bytes ---------------------------------------------------------------------------------------------------------


def blob_kept_on_unknown(patch: Patch) -> None:
    """The bytes of a write whose outcome is unknown are discarded."""

    real = StateOperations._move_pointer

    async def hasty(
        self: StateOperations, request: Request, blob: BlobRef, generation: int, may_submit: MaySubmit
    ) -> Reply:
        try:
            return await real(self, request, blob, generation, may_submit)
        except Problem as error:
            if error.outcome is Outcome.UNKNOWN:
                await self._deletions.try_delete(blob.key)
            raise

    patch.setattr(StateOperations, "_move_pointer", hasty)


def mark_before_discard(patch: Patch) -> None:
    """A removal discards the bytes first."""
    real = HandleOperations.remove

    async def remove(self: HandleOperations, caller: Caller, store: str, name: str, version: str | None) -> Reply:
        old = self._journal.read().view.handle(store, name)
        if isinstance(old, Handle) and caller.session in {lock.session for lock in old.locks}:
            await self._submitter._removals._deletions.try_delete(old.blob)
        return await real(self, caller, store, name, version)

    patch.setattr(HandleOperations, "remove", remove)


def collector_spares_its_own(patch: Patch) -> None:
    """The collector takes blobs of this leadership as well."""
    patch.setattr(collector, "_is_older", lambda _term, _first: True)


def readers_move_on(patch: Patch) -> None:
    """A reader whose bytes were replaced under it fails, and replaced bytes do not linger."""
    real = Effects.committed

    def committed(self: Effects, request: Request, accepted: Accepted) -> None:
        real(self, request, accepted)
        for key in accepted.discards:
            self._deletions.schedule(key, 0.0)

    patch.setattr(Effects, "committed", committed)
    patch.setattr(StateReader, "_moved_on", lambda *_: False)


def failed_discard_is_applied(patch: Patch) -> None:
    """A removal whose bytes could not be discarded is reported as not applied."""

    def untrue(*arguments: Any, **more: Any) -> Problem:
        return problem(*arguments, **{**more, "outcome": Outcome.NOT_APPLIED})

    patch.setattr(submitter, "problem", untrue)


def orphans_are_collected(patch: Patch) -> None:
    """Nobody looks for bytes that nothing names."""

    async def collect(*_: Any, **__: Any) -> int:
        return 0

    patch.setattr(leader, "collect", collect)


def maintenance_finishes_removals(patch: Patch) -> None:
    """A removal that was cut off waits until somebody asks for its handle."""
    patch.setattr(maintenance, "_unfinished", lambda _view, _key: None)


# -- sessions ------------------------------------------------------------------------------------------------------


def full_ttl_after_failover(patch: Patch) -> None:
    """A new leader gives sessions no time to be heard of."""

    def begin(self: Leases, session: Session | Corrupt) -> None:
        if isinstance(session, Session) and not session.ended:
            self.renew(session, self._clock() - session.ttl)

    patch.setattr(Leases, "begin", begin)


def keepalive_sees_pending_expiry(patch: Patch) -> None:
    """A keepalive is answered although the expiry is on its way."""
    patch.setattr(Leases, "ending", lambda _self, _session: False)


GUARDS: tuple[TakeOut, ...] = (
    whole_head,
    term_in_head,
    revision_in_head,
    take_over_writes_head,
    load_after_take_over,
    acknowledge_after_commit,
    reads_under_lease,
    reads_of_committed_state,
    refusals_wait,
    fence_before_judgement,
    lease_after_take_over,
    judgement_of_groups,
    newest_attempt_stands,
    blobs_of_this_leadership,
    epoch_when_built,
    if_match,
    lock_check,
    living_session,
    keys_remembered,
    keys_survive_removal,
    forgotten_keys_in_doubt,
    version_is_revision,
    blob_kept_on_unknown,
    mark_before_discard,
    collector_spares_its_own,
    readers_move_on,
    failed_discard_is_applied,
    orphans_are_collected,
    maintenance_finishes_removals,
    full_ttl_after_failover,
    keepalive_sees_pending_expiry,
)

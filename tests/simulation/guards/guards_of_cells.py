"""Guards around jobs that are moved among cells. See `tests.simulation.guards.guards`, and decision 124."""

from __future__ import annotations

from msgspec.structs import replace

from milepost.core.calls import cells as finding
from milepost.core.calls.calls import Caller
from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.core.effects import Operation
from milepost.types import Placement
from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.moves import ARRIVING
from milepost_server.model.records import Store, store_key
from milepost_server.model.requests.base import Attempt, Request
from milepost_server.model.requests.moves import BeginArrival, FinishArrival
from milepost_server.operations import moving
from milepost_server.rules import decide, guards, moves
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Refused
from tests.simulation.guards.guards import Patch

_HIGH = 2**40


def frozen_while_it_is_copied(patch: Patch) -> None:
    """A job that is being moved takes writes."""
    patch.setattr(guards, "is_not_frozen", lambda *_: None)


def arrival_above_each_epoch(patch: Patch) -> None:
    """An arrival begins under any epoch."""
    real = moves.begin_arrival

    def begin_arrival(view: View, request: BeginArrival, context: DecisionContext) -> Decision:
        decision = real(view, request, context)
        if not isinstance(decision, Refused) or decision.code is not Code.FENCED:
            return decision
        decision = real(view, replace(request, under=_HIGH), context)
        if not isinstance(decision, Accepted):
            return decision
        changes = dict(decision.changes)
        for key, record in changes.items():
            if isinstance(record, Store) and record.move is not None:
                changes[key] = replace(record, epoch=request.under, move=replace(record.move, epoch=request.under))
        return replace(decision, changes=changes)

    kind: type[Request] = BeginArrival
    patch.setitem(decide.HANDLERS, kind, begin_arrival)


def finish_needs_the_seal(patch: Patch) -> None:
    """Whoever asks finishes an arrival."""
    real = moves.finish_arrival

    def finish_arrival(view: View, request: FinishArrival, context: DecisionContext) -> Decision:
        store = view.store(request.store_name)
        if isinstance(store, Store) and store.move is not None and store.move.phase == ARRIVING:
            return Accepted(Answer(), {store_key(store.name): store.moving(None)})
        return real(view, request, context)

    kind: type[Request] = FinishArrival
    patch.setitem(decide.HANDLERS, kind, finish_arrival)


def silent_cells_are_waited_for(patch: Patch) -> None:
    """A cell that does not answer counts as one that does not know the job."""
    real = finding.asked

    def asked(caller: Caller, job: str, seconds: float) -> Operation[Placement]:
        try:
            return (yield from real(caller, job, seconds))
        except OUTAGES_OR_DOUBT:
            return Placement(job, caller.cell, ("a", "b"), finding.NONE, None, None, None)

    patch.setattr(finding, "asked", asked)


def revision_is_raised(patch: Patch) -> None:
    """The new cell's revision stays below those of the records that it was given."""

    def finished(attempt: Attempt, job: str, move: str, seal: str, above: int) -> FinishArrival:
        del above
        return FinishArrival(attempt, job, move, seal)

    patch.setattr(moving, "FinishArrival", finished)

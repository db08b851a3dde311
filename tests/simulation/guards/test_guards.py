"""Each guard is needed: with it taken out the simulator sees an invariant break, and with all of them in, in the very
same episode, none.
"""

from __future__ import annotations

import pytest

from tests.simulation.checks.invariants import Invariant
from tests.simulation.checks.missing import Scene, assert_missed
from tests.simulation.guards import guards, scenes

DIRTY, STALE, THERE = Invariant.DIRTY_READ, Invariant.STALE_READ, Invariant.BLOB_THERE
NO, YES, FIRST = Invariant.TRUTHFUL_NO, Invariant.TRUTHFUL_YES, Invariant.FIRST_ANSWER
DROPPED, RISES, AS_MODELLED = Invariant.NOTHING_DROPPED, Invariant.REVISION_RISES, Invariant.AS_MODELLED

TAKEN_OUT: list[tuple[guards.TakeOut, Scene, set[Invariant]]] = [
    (guards.whole_head, scenes.held_requests, {Invariant.DEPOSED, YES, RISES, AS_MODELLED}),
    (guards.term_in_head, scenes.held_requests, {Invariant.DEPOSED}),
    (guards.revision_in_head, scenes.held_requests, {YES, RISES, AS_MODELLED}),
    (guards.take_over_writes_head, scenes.dying_leaders, {DIRTY, FIRST, AS_MODELLED, Invariant.RECOVERS}),
    (guards.load_after_take_over, scenes.held_requests, {DROPPED, Invariant.ONCE}),
    (guards.acknowledge_after_commit, scenes.slow_store, {DIRTY, YES}),
    (guards.reads_under_lease, scenes.deaf_leaders, {STALE, DIRTY, Invariant.FULL_TTL}),
    (guards.reads_of_committed_state, scenes.slow_store, {DIRTY}),
    (guards.refusals_wait, scenes.slow_store, {DIRTY, YES, THERE}),
    (guards.fence_before_judgement, scenes.held_groups, {DIRTY, DROPPED, FIRST, YES, NO}),
    (guards.lease_after_take_over, scenes.slow_take_overs, {Invariant.DEPOSED}),
    (guards.judgement_of_groups, scenes.lost_answers, {THERE}),
    (guards.newest_attempt_stands, scenes.impatient, {NO}),
    (guards.blobs_of_this_leadership, scenes.lonely_leader, {THERE}),
    (guards.epoch_when_built, scenes.slow_store, {Invariant.STALE_EPOCH, DIRTY, NO}),
    (guards.if_match, scenes.calm, {Invariant.LOST_UPDATE}),
    (guards.lock_check, scenes.calm, {Invariant.UNDER_LOCK}),
    (guards.living_session, scenes.calm, {Invariant.DEAD_SESSION}),
    (guards.keys_remembered, scenes.deaf_network, {FIRST, NO, Invariant.ONCE}),
    (guards.keys_survive_removal, scenes.calm, {DROPPED}),
    (guards.forgotten_keys_in_doubt, scenes.forgetful, {NO, Invariant.ONCE}),
    (guards.version_is_revision, scenes.calm, {Invariant.VERSION_REUSED}),
    (guards.blob_kept_on_unknown, scenes.slow_store, {THERE}),
    (guards.mark_before_discard, scenes.calm, {THERE}),
    (guards.collector_spares_its_own, scenes.slow_store, {THERE}),
    (guards.readers_move_on, scenes.slow_bytes, {THERE}),
    (guards.failed_discard_is_applied, scenes.away_bytes, {NO}),
    (guards.orphans_are_collected, scenes.dying_leaders, {Invariant.RECOVERS}),
    (guards.maintenance_finishes_removals, scenes.cut_off_removals, {Invariant.RECOVERS}),
    (guards.full_ttl_after_failover, scenes.dying_leaders, {Invariant.BELIEVED, Invariant.FULL_TTL}),
    (guards.keepalive_sees_pending_expiry, scenes.slow_store, {Invariant.BELIEVED}),
]


@pytest.mark.parametrize(("take_out", "scene", "breaks"), TAKEN_OUT, ids=[entry[0].__name__ for entry in TAKEN_OUT])
def test_without_the_guard_an_invariant_breaks(
    take_out: guards.TakeOut, scene: Scene, breaks: set[Invariant], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_missed(take_out, scene, breaks, monkeypatch)

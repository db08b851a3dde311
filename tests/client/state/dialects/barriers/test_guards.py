"""Each guard is needed: without it the checker finds a fault, and with it, in the very same run, none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from milepost.state.dialects.barriers import Alignment, Graph
from tests.client.state.dialects.barriers import guards
from tests.client.state.dialects.barriers.checker import Fault, Inconsistent
from tests.client.state.dialects.barriers.graphs import diamond, line, loop
from tests.client.state.dialects.barriers.simulator import Run

RUNS = 60
"""At most; most faults show in the first few."""
TAKEN_OUT: list[tuple[guards.TakeOut, Callable[[], Graph], Alignment, Fault]] = [
    (guards.alignment, diamond, Alignment.EXACTLY_ONCE, Fault.ORPHAN),
    (guards.log_of_back_edges, loop, Alignment.EXACTLY_ONCE, Fault.LOST),
    (guards.log_of_back_edges, diamond, Alignment.UNALIGNED, Fault.LOST),
    (guards.acknowledgement_after_saving, line, Alignment.EXACTLY_ONCE, Fault.INCOMPLETE),
    (guards.all_acknowledgements, diamond, Alignment.EXACTLY_ONCE, Fault.INCOMPLETE),
    (guards.copy_of_the_state, loop, Alignment.EXACTLY_ONCE, Fault.ORPHAN),
    (guards.snapshot_before_the_barrier, diamond, Alignment.EXACTLY_ONCE, Fault.LOST),
    (guards.one_after_the_other, loop, Alignment.EXACTLY_ONCE, Fault.LOST),
    (guards.refilled_first, loop, Alignment.UNALIGNED, Fault.LOST),
    (guards.rewound_sources, line, Alignment.EXACTLY_ONCE, Fault.CHANNEL),
    (guards.output_waits, line, Alignment.EXACTLY_ONCE, Fault.DELIVERED_TWICE),
    (guards.delivered_before_the_next, line, Alignment.EXACTLY_ONCE, Fault.OUTPUT),
    (guards.delivered_again, line, Alignment.EXACTLY_ONCE, Fault.OUTPUT),
    (guards.output_is_forgotten, line, Alignment.EXACTLY_ONCE, Fault.NO_SUCH_STATE),
]


def first_fault(graph: Graph, alignment: Alignment) -> tuple[int, Fault] | None:
    """Return the seed and the fault of the first run that has one."""
    for seed in range(RUNS):
        try:
            Run(seed, graph, alignment).play()
        except Inconsistent as error:
            return seed, error.fault
    return None


@pytest.mark.parametrize(
    ("take_out", "graph", "alignment", "fault"),
    TAKEN_OUT,
    ids=[f"{one.__name__}-{alignment.name}" for one, _, alignment, _ in TAKEN_OUT],
)
def test_without_the_guard_the_checker_finds_a_fault(
    take_out: guards.TakeOut,
    graph: Callable[[], Graph],
    alignment: Alignment,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        take_out(patch)
        found = first_fault(graph(), alignment)
    assert found is not None, "the guard is not missed"
    seed, shown = found
    assert shown is fault
    Run(seed, graph(), alignment).play()

"""Many runs drawn from numbers: no snapshot is anything but a consistent cut, and everything counts once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from graphlib import TopologicalSorter
from random import Random

import pytest

from milepost.state.dialects.barriers import Alignment, Graph
from tests.client.state.dialects.barriers.graphs import diamond, drawn, expected, islands, loop
from tests.client.state.dialects.barriers.simulator import Run

EXPLORED = max(1, int(os.environ.get("MILEPOST_EXPLORE_STATE", "1")))
"""How many times as many runs there are."""


def test_runs_with_crashes_come_to_the_same_as_runs_without() -> None:
    tally: Counter[str] = Counter()
    for seed in range(60 * EXPLORED):
        run = Run(seed)
        run.play()
        tally += run.tally
    for trouble in ("given up", "declined", "records in transit", "task died", "coordinator died", "NotDelivered"):
        assert tally[trouble] > 5, f"too little of this was in it: {trouble}"
    assert tally["restores"] > 50
    assert tally["snapshots"] > 200


@pytest.mark.parametrize("graph", [diamond, loop, islands])
@pytest.mark.parametrize("alignment", [Alignment.EXACTLY_ONCE, Alignment.UNALIGNED])
def test_each_kind_of_graph_comes_to_the_same_with_and_without_faults(
    graph: Callable[[], Graph], alignment: Alignment
) -> None:
    calm = Run(0, graph(), alignment, crashes=0)
    delivered = calm.play()
    assert not calm.tally["restores"]
    assert sum(expected(graph())[0].values()) > 15
    for seed in range(5 * EXPLORED):
        assert Run(seed, graph(), alignment).play().counted() == delivered.counted()


def test_a_seed_replays_exactly() -> None:
    first, second, other = Run(5), Run(5), Run(6)
    for run in (first, second, other):
        run.play()
    assert first.trace == second.trace != other.trace


def test_back_edges_are_those_without_which_there_is_no_loop() -> None:
    assert loop().back == {("body", "head")}
    assert diamond().back == islands().back == set()
    with_loops = 0
    for seed in range(200):
        graph = drawn(Random(seed))
        ends = {(edge.source, edge.target) for edge in graph.edges}
        sorter: TopologicalSorter[str] = TopologicalSorter()
        for source, target in ends - graph.back:
            sorter.add(target, source)
        sorter.prepare()  # raises if there is a loop
        with_loops += bool(graph.back)
    assert with_loops > 50

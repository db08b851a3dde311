"""The simulator's cut: what `make simulate` does at twenty times the size."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.episode import Report, run
from tests.simulation.plan import Plan, draw, draw_cells
from tests.simulation.runner import episode, episode_of_cells, simulate

REQUESTS = 50_000


_IN_ONE = ("terms abandoned", "pauses", "unknown", "renames", "files in one request", "cuts of trees", "manifests")
_IN_TWO = ("moves", "savepoints", "doubled", "cells away", "programs killed", "programs paused")


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "troubles"), [(episode, _IN_ONE), (episode_of_cells, _IN_TWO)], ids=["one deployment", "two cells"]
)
def test_no_invariant_is_broken_in_fifty_thousand_requests(
    kind: Callable[[int], Report], troubles: tuple[str, ...]
) -> None:
    summary = simulate(REQUESTS, seed=0, jobs=2, episode=kind)
    assert not summary.broken, "\n".join(
        f"{report.trace}\nseed {report.seed}: {report.violation}" for report in summary.broken
    )
    assert summary.tally["requests"] >= REQUESTS
    for trouble in ("take-overs", "kills", *troubles):
        assert summary.tally[trouble] > 0, f"nothing of this was in it: {trouble}"


def test_a_report_of_a_breach_comes_back_from_another_process() -> None:
    """One that does not would leave all who wait for it without an answer for ever."""
    report = Report(7, violation=Violation(Invariant.ONCE, "twice"))
    again = pickle.loads(pickle.dumps(report))
    assert str(again.violation) == str(report.violation) == f"{Invariant.ONCE.value} -- twice"
    assert again.violation.invariant is Invariant.ONCE


@pytest.mark.parametrize(("plan", "seed"), [(draw, 3), (draw, 17), (draw_cells, 3)])
def test_a_seed_replays_exactly(plan: Callable[[int, int], Plan], seed: int) -> None:
    first, second = (run(plan(seed, 600)) for _ in range(2))
    assert first.digest == second.digest
    assert first.tally == second.tally
    assert first.seconds == second.seconds


def test_another_seed_is_another_story() -> None:
    assert run(draw(3, 300)).digest != run(draw(4, 300)).digest


BROKEN = """
import pytest
from tests.simulation.guards import guards, guards_of_cells, guards_of_trees
from tests.simulation.guards import scenes, scenes_of_cells, scenes_of_trees
from tests.simulation.episode import Report, run
from tests.simulation.checks.invariants import Invariant, Violation

with pytest.MonkeyPatch.context() as patch:
    {guard}(patch)
    report = next(report for seed in range(25) if (report := run({scene}(seed))).violation)
tally = sorted(report.tally.items())
print(report.seed, report.violation, report.digest, tally, report.trace, sep="\\n")
"""
"""A program that takes a guard out, runs episodes until one fails, and prints all of it."""


@pytest.mark.later
@pytest.mark.parametrize(
    ("guard", "scene"),
    [
        ("guards.lock_check", "scenes.calm"),
        ("guards.take_over_writes_head", "scenes.dying_leaders"),
        ("guards_of_trees.nothing_goes_while_compacting", "scenes_of_trees.compacting"),
        ("guards_of_cells.finish_needs_the_seal", "scenes_of_cells.delayed"),
    ],
)
def test_a_seed_that_fails_fails_again_wherever_it_is_run(guard: str, scene: str) -> None:
    """In other processes, whose sets and dictionaries of strings have other orders."""
    outputs = []
    for hash_seed in ("1", "2"):
        ended = subprocess.run(
            [sys.executable, "-c", BROKEN.format(guard=guard, scene=scene)],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        )
        outputs.append(ended.stdout)
    assert outputs[0].splitlines()[1].partition(" -- ")[0] in {invariant.value for invariant in Invariant}
    assert len(outputs[0].splitlines()) > 20
    assert outputs[0] == outputs[1]

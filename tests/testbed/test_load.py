"""What a load tells: how long one of its writers waited for an acknowledgement, and since when."""

from __future__ import annotations

import json
from dataclasses import asdict

from testbed.load import Gap, Outcome, gaps
from testbed.writers import Account

STEADY = Account("steady", acknowledged=[1.0, 1.5, 4.5, 5.5])
LATE = Account("late", acknowledged=[1.25, 6.0])


def test_gaps_are_listed_from_the_longest_on() -> None:
    assert gaps([STEADY], 1.0, 5.5)[:3] == [Gap("steady", 1.5, 3.0), Gap("steady", 4.5, 1.0), Gap("steady", 1.0, 0.5)]


def test_a_writer_waits_though_others_write() -> None:
    assert gaps([STEADY, LATE], 1.0, 5.5)[0] == Gap("late", 1.25, 4.75)


def test_a_writer_that_never_writes_again_waits_until_all_are_told_to_end() -> None:
    dead, mute = Account("dead", acknowledged=[1.25]), Account("mute")
    assert gaps([STEADY, dead, mute], 1.0, 9.0)[:2] == [Gap("mute", 1.0, 8.0), Gap("dead", 1.25, 7.75)]


def test_a_gap_counts_from_the_fault_on() -> None:
    outcome = Outcome(4, gaps([STEADY], 1.0, 5.5), (), ())
    assert outcome.gap_after(0.0) == 3.0
    assert outcome.gap_after(2.0) == 2.5
    assert outcome.gap_after(4.5) == 1.0
    assert outcome.gap_after(6.0) == 0.0


def test_an_outcome_is_read_as_it_was_printed() -> None:
    outcome = Outcome(2, [Gap("steady", 1.0, 0.5)], ["NotReachable()"], ["added-1 is not what was acknowledged"])
    assert Outcome.parse(json.dumps(asdict(outcome))) == outcome

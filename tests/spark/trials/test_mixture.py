"""A mixture of faults at random moments: drivers killed and frozen in part or whole, the server away, all at once.

Each query is one job that is never begun anew: a driver leads, one or two stand by, input keeps coming. After each blow
somebody goes on, and after each round every batch is there once, with the rows that it must have. MILEPOST_SPARK_ROUNDS
says how many rounds there are over all queries; MILEPOST_SPARK_SEED replays those of a run, which prints its seed.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.trials.faults import CUT, rounds, seed, wanted
from tests.spark.trials.fleet import Fleet

pytestmark = [pytest.mark.spark, pytest.mark.long]

_STORES = {
    "stateless": "hdfs",
    "aggregation": "rocksdb-changelog",
    "windows": "hdfs",
    "join": "rocksdb",
    "transform": "rocksdb-v2",
}
"""Each with the state store that it is run on."""


def _share(kind: str) -> int:
    """How many of the rounds are this query's."""
    number = list(_STORES).index(kind)
    return wanted() // len(_STORES) + (number < wanted() % len(_STORES))


@pytest.mark.parametrize("kind", list(_STORES) if wanted() else ["stateless"])
@pytest.mark.timeout(7200 if wanted() else 600)
def test_whatever_is_interrupted_somebody_goes_on_and_nothing_is_lost_or_doubled(
    kind: str, java_options: str, tmp_path: Path
) -> None:
    drawn = seed()
    print(f"{kind}: MILEPOST_SPARK_SEED={drawn}", flush=True)
    plan = rounds(_share(kind), random.Random(f"{drawn} {kind}")) if wanted() else CUT
    with ServerProcess(tmp_path / "service", "--log-level", "warning") as server, ExitStack() as stack:
        fleet = Fleet(kind, _STORES[kind], server.start(), java_options, tmp_path / "job", stack)
        for number, round_ in enumerate(plan, 1):
            fleet.run(round_)
            batches = fleet.rows()
            assert batches == fleet.expected(), f"seed {drawn}, round {number}: rows were lost or doubled"
            met = "; ".join(" + ".join(map(str, blow.faults)) for blow in round_.blows)
            gaps = ", ".join(f"{gap:.0f}" for gap in fleet.tally.gaps[-len(round_.blows) :])
            print(f"{kind} {number:3}: {met}: went on after {gaps} s, {len(batches)} batches as expected", flush=True)
    tally = fleet.tally
    faults = sum(tally.faults.values())
    print(f"{kind}: {len(plan)} rounds, {faults} faults {dict(tally.faults)}, drivers ended {dict(tally.ends)}")
    print(f"{kind}: {tally.files} files, none lost, none doubled")
    print(f"{kind}: longest time until somebody went on {max(tally.gaps):.1f} s")

"""How long a job is without a driver in a hand-over, against the length of its batches.

    python -m benchmarks.handovers [--rounds 5]

Real drivers of an aggregation with input at all times; each round has a leader and a standby, whose Sparks are up. Told
are the seconds from the request until the standby leads, the seconds of them without a driver, both in multiples of the
job's median batch within this run, and how many batches were run twice.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import milepost
from testbed.server import ServerProcess
from tests.spark.jobs import wait_until
from tests.spark.trials.queries import write_input
from tests.spark.under_test import java
from tests.spark.under_test.process import Driver
from tests.spark.under_test.settings import Setup

_JOB = "handed-over"
_FILES_A_ROUND = 40


def main() -> int:
    """Measure, and print; the exit status is 1 if a batch was run twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        server = opened.enter_context(ServerProcess(place, "--log-level", "warning")).start()
        client = opened.enter_context(milepost.Client(server.url))
        write_input(place / "in", _FILES_A_ROUND * (given.rounds + 1))

        def driver(number: int) -> Driver:
            settings = Setup(
                url=server.url,
                store=_JOB,
                kind="aggregation",
                provider="hdfs",
                input=str(place / "in"),
                output=str(place / "out"),
                scratch=str(place / f"driver-{number}"),
                events=str(place / f"driver-{number}.events"),
                java_options=java.options(Path(__file__).parents[1] / ".cache"),
                ttl=60.0,
                available_now=False,
            )
            return opened.enter_context(Driver(settings))

        leader = driver(0)
        leader.wait_for("leading")
        for number in range(1, given.rounds + 1):
            standby = driver(number)
            wait_until(lambda: client.job_info(_JOB).standby_count == 1, deadline=300.0)
            time.sleep(5.0)  # let it finish its start beside the leader's batches
            client.hand_over_job(_JOB)
            leader.wait()
            standby.wait_for("published")
            leader = standby
        client.stop_job(_JOB)
        leader.wait()
        return _told(list(client.job_history(_JOB)))


def _told(entries: list[milepost.HistoryEntry]) -> int:
    """Print the figures of a job's history."""

    def times(kind: str) -> dict[int, float]:
        return {each.epoch: each.at.timestamp() for each in entries if each.kind == kind and each.epoch and each.at}

    asked, ended, led = times("hand-over-requested"), times("epoch-ended"), times("epoch-granted")
    committed = [each for each in entries if each.kind == "batch-committed"]
    batch = statistics.median((each.at - each.since).total_seconds() for each in committed if each.at and each.since)
    replays = sum(1 for each in committed if each.replay)
    waits = [led[epoch + 1] - asked[epoch] for epoch in asked]
    gaps = [led[epoch + 1] - ended[epoch] for epoch in asked]
    for what, found in (("until the standby led", waits), ("without a driver", gaps)):
        middle, most = statistics.median(found), max(found)
        print(f"{what}: {middle:.2f} s, {most:.2f} s at most; {middle / batch:.2f} times a batch of {batch:.2f} s")
    print(f"batches run twice: {replays} of {len(committed)}")
    return 1 if replays else 0


if __name__ == "__main__":
    sys.exit(main())

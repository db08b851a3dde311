"""Plays rounds of faults at jobs with managed state: ``python -m tests.spark.stateful --rounds 100 --seed 1``."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from testbed.server import ServerProcess
from tests.spark.stateful.rounds import Job, Tally, faults
from tests.spark.under_test import java

CACHE = Path(__file__).parents[3] / ".cache"
PER_JOB = 20
_FEW_SNAPSHOTS = 5


def main() -> int:
    """Play all rounds, twenty a job; the directory of a job that fails is kept, and the next one is played."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.stateful")
    parser.add_argument("--rounds", type=int, default=100, help="how many faults in all")
    parser.add_argument("--seed", type=int, default=1, help="the number of the first job; the others follow it")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # and all that was started ends
    played = 0
    failed: list[int] = []
    total = Tally(Counter())
    directory = Path(tempfile.mkdtemp(prefix="stateful-", dir=CACHE))
    with ServerProcess(directory / "service") as server:
        server.start()
        seed = asked.seed
        while played < asked.rounds:
            count = min(PER_JOB, asked.rounds - played)
            began = time.monotonic()
            place = directory / f"job-{seed}"
            place.mkdir()
            job = job_of(seed, place, server.url, java.options(CACHE))
            try:
                job.play(faults(seed, count, job.tree))
                shutil.rmtree(place)
                verdict = "ok"
            except (AssertionError, OSError) as error:
                traceback.print_exc()
                failed.append(seed)
                verdict = f"{type(error).__name__}, kept in {place}"
            total.counts += job.tally.counts
            played += count
            seconds = time.monotonic() - began
            print(f"seed {seed}: {count} rounds in {seconds:.0f} s, {verdict}: {job.tally}", flush=True)
            seed += 1
    if failed:
        print(f"{played} rounds; these seeds failed: {failed}; {total}")
        return 1
    shutil.rmtree(directory)
    print(f"{played} rounds, nothing lost or doubled: {total}")
    return 0


def job_of(seed: int, place: Path, url: str, java_options: str) -> Job:
    """Make the job of a seed: each third has its state in its tree, each second keeps few snapshots."""
    keep = _FEW_SNAPSHOTS if seed % 2 else 100
    return Job(place, url, java_options, tree=seed % 3 == 0, keep=keep)


if __name__ == "__main__":
    sys.exit(main())

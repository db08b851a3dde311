"""Plays rounds of faults at jobs with managed state: ``python -m tests.spark.stateful --rounds 100 --seed 1``."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from testbed.server import ServerProcess
from tests.spark.stateful.rounds import Job, faults
from tests.spark.under_test import java

CACHE = Path(__file__).parents[3] / ".cache"
PER_JOB = 10


def main() -> int:
    """Play all rounds, ten a job; the directory of a job that fails is kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.stateful")
    parser.add_argument("--rounds", type=int, default=100, help="how many faults in all")
    parser.add_argument("--seed", type=int, default=1, help="the number of the first job; the others follow it")
    asked = parser.parse_args()
    played = zombies = 0
    directory = Path(tempfile.mkdtemp(prefix="stateful-", dir=CACHE))
    with ServerProcess(directory / "service") as server:
        server.start()
        seed = asked.seed
        while played < asked.rounds:
            count = min(PER_JOB, asked.rounds - played)
            began = time.monotonic()
            place = directory / f"job-{seed}"
            place.mkdir()
            refused = Job(place, server.url, java.options(CACHE), 2 * count + 3).play(faults(seed, count))
            played, zombies = played + count, zombies + refused
            shutil.rmtree(place)
            print(f"seed {seed}: {count} rounds in {time.monotonic() - began:.0f} s, {refused} refused", flush=True)
            seed += 1
    shutil.rmtree(directory)
    print(f"{played} rounds, nothing lost or doubled, {zombies} zombies refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Kill cells, drivers and movers while a job is moved.

python -m tests.system.cells [--rounds 100] [--seed 1] [--directory DIR]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.system.cells.trial import Trial

PER_JOB = 20
"""How many rounds one job goes through."""


def main() -> None:
    """Play jobs of twenty rounds each; a broken invariant ends the program with an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, default=None)
    given = parser.parse_args()
    for number in range(-(-given.rounds // PER_JOB)):
        began, seed = time.monotonic(), given.seed + number
        with (
            tempfile.TemporaryDirectory(dir=given.directory, prefix="milepost-cells-") as directory,
            Trial(Path(directory), seed) as trial,
        ):
            told = trial.play(min(PER_JOB, given.rounds - number * PER_JOB))
        print(f"seed {seed}: {told}; in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()

"""``python -m tests.fuzz``: asks a real server what nobody would, and holds each answer against its OpenAPI page."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.run import run
from tests.fuzz.verdicts import Wrong


def main() -> None:
    """Exits with 1 for an answer that is not as documented."""
    flags = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    flags.add_argument("--cases", type=int, default=24_000, help="how many requests, a third of each kind")
    flags.add_argument("--seconds", type=float, default=1800.0, help="how long at most, a third for each kind")
    flags.add_argument("--seed", type=int, default=None, help="that of an earlier run, to see the same again")
    given = flags.parse_args()
    seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    again = f'make fuzz ARGS="--cases {given.cases} --seed {seed}"'
    print(f"{given.cases} requests, seed {seed}; the same again: {again}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="milepost-fuzz-") as directory:
        try:
            sent = run(Path(directory), given.cases, seed, given.seconds)
        except Wrong as wrong:
            print(f"not as documented: {wrong}\nthe same again: {again}", file=sys.stderr)
            sys.exit(1)
    counts = ", ".join(f"{number} {kind}" for kind, number in sent.items())
    print(f"passed: {counts}, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

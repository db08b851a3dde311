"""``python -m tests.simulation``: run episodes until so many requests were made, or until an invariant breaks."""

from __future__ import annotations

import argparse
import os
import sys

from tests.simulation.episode import Report
from tests.simulation.runner import Summary, episode, episode_of_cells, simulate

_TOLD_EVERY = 20


def main() -> int:
    """Run what the arguments ask for; 1 if an invariant was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument(
        "--requests", type=int, default=100_000, help="how many requests to make (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="the first episode's seed (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--cells", action="store_true", help="episodes of two cells, among which jobs are moved")
    parser.add_argument("--replay", action="store_true", help="run the one episode of --seed, and show its last events")
    options = parser.parse_args()
    kind = episode_of_cells if options.cells else episode
    if options.replay:
        report = kind(options.seed)
        print(report.trace)
        _tell(report, options.cells)
        return int(report.violation is not None)
    summary = simulate(options.requests, options.seed, options.jobs, _progress, kind)
    print(*summary.lines(), sep="\n")
    for report in summary.broken:
        print(report.trace)
        _tell(report, options.cells)
    return int(bool(summary.broken))


def _progress(summary: Summary) -> None:
    if summary.episodes % _TOLD_EVERY == 0:
        print(f"{summary.tally['requests']:>12,} requests, {summary.wall:,.0f} s", file=sys.stderr, flush=True)


def _tell(report: Report, cells: bool) -> None:
    if report.violation is None:
        print(f"seed {report.seed}: no invariant was broken (digest {report.digest:08x})")
    else:
        print(f"seed {report.seed} broke {report.violation}")
        print(f"again: python -m tests.simulation --replay{' --cells' if cells else ''} --seed {report.seed}")


if __name__ == "__main__":
    sys.exit(main())

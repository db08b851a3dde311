"""Many episodes, on several processes, and what they add up to."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.simulation.episode import Report, run
from tests.simulation.plan import draw, draw_cells

REQUESTS_PER_EPISODE = 1500
_OF_TREES = ("renames", "files in one request", "cuts of trees", "manifests")
_OF_CELLS = ("jobs", "epochs", "moves", "savepoints", "doubled", "cells away", "programs killed", "programs paused")


@dataclass(slots=True)
class Summary:
    """What many episodes add up to. ``wall`` and ``virtual`` are seconds."""

    tally: Counter[str] = field(default_factory=Counter)
    episodes: int = 0
    virtual: float = 0.0
    wall: float = 0.0
    broken: list[Report] = field(default_factory=list)

    def add(self, report: Report) -> None:
        """Count an episode in."""
        self.tally.update(report.tally)
        self.episodes += 1
        self.virtual += report.seconds
        if report.violation is not None:
            self.broken.append(report)

    def lines(self) -> Iterator[str]:
        """The summary, to be read."""
        rate = self.tally["requests"] / self.wall if self.wall else 0.0
        hours = self.virtual / 3600
        yield f"{self.tally['requests']:,} requests in {self.episodes:,} episodes, {hours:,.1f} virtual hours"
        for what in ("calls", "acknowledged", "refused or given up", "unknown", "groups", *_OF_TREES):
            yield f"  {what:<20} {self.tally[what]:>12,}"
        for what in _OF_CELLS if self.tally["jobs"] else ():
            yield f"  {what:<20} {self.tally[what]:>12,}"
        for what in ("take-overs", "terms abandoned", "pauses", "kills", "stops", "cuts", "outages"):
            yield f"  {what:<20} {self.tally[what]:>12,}"
        yield f"{self.wall:,.0f} s, {rate:,.0f} requests a second"
        yield f"{len(self.broken)} episodes broke an invariant" if self.broken else "no invariant was broken"


def episode(seed: int) -> Report:
    """Run the episode of one seed."""
    return run(draw(seed, REQUESTS_PER_EPISODE))


def episode_of_cells(seed: int) -> Report:
    """Run the episode of two cells of one seed."""
    return run(draw_cells(seed, REQUESTS_PER_EPISODE))


def simulate(
    requests: int,
    seed: int,
    jobs: int,
    progress: Callable[[Summary], None] = lambda _: None,
    episode: Callable[[int], Report] = episode,
) -> Summary:
    """Run episodes from ``seed`` on until that many requests were made, or until an episode breaks an invariant."""
    summary, began = Summary(), time.monotonic()
    seeds = range(seed, seed + requests)
    with _episodes(episode, seeds, jobs) as reports:
        for report in reports:
            summary.add(report)
            summary.wall = time.monotonic() - began
            progress(summary)
            if summary.broken or summary.tally["requests"] >= requests:
                break
    return summary


@contextmanager
def _episodes(episode: Callable[[int], Report], seeds: range, jobs: int) -> Iterator[Iterator[Report]]:
    """The reports in the order of their seeds, whatever number of processes they come from."""
    if jobs == 1:
        yield map(episode, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs) as pool:
        yield pool.imap(episode, seeds, chunksize=1)

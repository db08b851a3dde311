"""What a demo found: each run's comparison and take-overs, the table of both, and whether all is as it must be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from demo.report.comparison import Comparison
from demo.timeline import FAILED, FENCED, KILLED, LEADS, PAUSED, PUBLISHED, WOKEN, Event, TakeOver, take_overs


@dataclass(frozen=True)
class Run:
    """One run of the scenario."""

    events: Sequence[Event]
    comparison: Comparison

    def take_over(self, fault: str) -> TakeOver:
        """The one after ``fault`` (`PAUSED` or `KILLED`)."""
        return next(found for found in take_overs(self.events) if found.fault.what == fault)

    @property
    def woken(self) -> Event:
        """When the paused driver was woken."""
        return next(event for event in self.events if event.what == WOKEN)

    @property
    def published_after_waking(self) -> list[int]:
        """Batches that the paused driver published after it was woken."""
        return [
            event.batch
            for event in self.events
            if event.what == PUBLISHED
            and event.driver == self.woken.driver
            and event.at > self.woken.at
            and event.batch is not None
        ]

    @property
    def end_of_woken(self) -> Event | None:
        """How the paused driver ended, if it was not by itself."""
        ends = (event for event in self.events if event.what in (FENCED, FAILED) and event.driver == self.woken.driver)
        return next(ends, None)


def table(with_milepost: Run, plain: Run) -> str:
    """Both runs side by side."""
    return side_by_side(_column(with_milepost), _column(plain))


def side_by_side(with_milepost: Iterable[tuple[str, str]], plain: Iterable[tuple[str, str]]) -> str:
    """The rows of two runs, each with its name and what was found, as one table."""
    rows = [("", "with Milepost", "plain Spark")]
    for left, right in zip(with_milepost, plain, strict=True):
        rows.append((left[0], left[1], right[1]))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{row[0]:<{widths[0]}}   {row[1]:>{widths[1]}}   {row[2]:>{widths[2]}}" for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _column(run: Run) -> Iterator[tuple[str, str]]:
    found = run.comparison
    yield "rows in", f"{found.rows_in:,}"
    yield "rows out", f"{found.rows_out:,}"
    yield "duplicates", f"{found.duplicates:,}"
    yield "losses", f"{found.losses:,}"
    yield "carriers whose rows add up wrong", f"{found.wrong_sums} of {found.carriers}"
    yield "carriers whose running totals end wrong", f"{found.wrong_totals} of {found.carriers}"
    for what, words in ((PAUSED, "pause"), (KILLED, "kill -9")):
        taken = run.take_over(what)
        told = "" if taken.epoch else "told after "
        yield f"seconds from {words} to the next leader", f"{told}{taken.leads_after:.1f}"
        yield f"seconds from {words} to its first published batch", f"{taken.publishes_after:.1f}"
    batches = ", ".join(map(str, run.published_after_waking))
    yield "what the paused driver published, woken", f"batch {batches} again" if batches else "nothing"
    yield "  … and how it ended", name_of_end(run.end_of_woken)


def rising(epochs: Sequence[int | None]) -> bool:
    """Whether all have one, and each is above the one before."""
    numbers = [epoch for epoch in epochs if epoch is not None]
    return len(numbers) == len(epochs) and all(before < after for before, after in pairwise(numbers))


def name_of_end(end: Event | None) -> str:
    """The name of the error that ended a driver: an exception's class, or Spark's ``[ERROR_CLASS]``."""
    if end is None:
        return "by itself"
    match = re.match(r"\[?(\w+)", end.detail)
    return match.group(1) if match else "with an error"


def complaints(with_milepost: Run, plain: Run) -> list[str]:
    """What is not as it must be; nothing, if the demo shows what it is to show."""
    found: list[str] = []
    if not with_milepost.comparison.exact:
        found.append("with Milepost, what came out is not what went in")
    if with_milepost.published_after_waking:
        found.append("with Milepost, the woken driver published")
    end = with_milepost.end_of_woken
    if end is None or end.what != FENCED:
        found.append("with Milepost, the woken driver was not shut out")
    epochs = [event.epoch for event in with_milepost.events if event.what == LEADS]
    if len(epochs) != 3 or not rising(epochs):
        found.append(f"three drivers should have led under rising epochs, not {epochs}")
    if plain.comparison.rows_in != with_milepost.comparison.rows_in:
        found.append("both runs should have read the same input")
    if plain.comparison.exact:
        found.append("plain Spark doubled nothing: it was not broken where it should have been")
    return found

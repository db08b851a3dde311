"""What both runs came to, side by side, and whether it is as it must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from demo.cluster.output import Found
from demo.report.table import name_of_end, rising, side_by_side
from demo.timeline import FAILED, FENCED, KILLED, LEADS, PAUSED, PUBLISHED, WOKEN, Event, take_overs


@dataclass(frozen=True)
class Run:
    """One run of the story."""

    events: Sequence[Event]
    found: Found

    @property
    def epochs(self) -> list[int | None]:
        """Of all who led."""
        return [event.epoch for event in self.events if event.what == LEADS]

    @property
    def woken(self) -> list[Event]:
        """What the paused driver did from its waking on, until it led the next time."""
        (waking,) = (event for event in self.events if event.what == WOKEN)
        own = [event for event in self.events if event.driver == waking.driver and event.at > waking.at]
        led = next((number for number, event in enumerate(own) if event.what == LEADS), len(own))
        return own[:led]

    @property
    def written_by_woken(self) -> list[int]:
        """The batches that the paused driver wrote when it was woken."""
        return [event.batch for event in self.woken if event.what == PUBLISHED and event.batch is not None]

    @property
    def end_of_woken(self) -> Event | None:
        """How it ended, if it did."""
        return next((event for event in self.woken if event.what in (FENCED, FAILED)), None)


def table(with_milepost: Run, plain: Run) -> str:
    """Both runs side by side."""
    return side_by_side(_column(with_milepost), _column(plain))


def _column(run: Run) -> Iterator[tuple[str, str]]:
    found = run.found
    yield "flights in", f"{found.rows_in:,}"
    yield "flights in the totals at the end", f"{found.rows_out:,}"
    yield "carriers whose totals end wrong", f"{found.wrong_totals} of {found.carriers}"
    yield "batches", f"{found.batches}"
    yield "batches that were written twice", f"{len(found.again)}"
    yield "  … the second time with other totals", f"{len(found.otherwise)}"
    faults = {taken.fault.what: taken for taken in take_overs(run.events)}
    for what, words in ((PAUSED, "pause"), (KILLED, "kill -9")):
        taken = faults[what]
        told = "" if taken.epoch else "told after "
        yield f"seconds from {words} to the next leader", f"{told}{taken.leads_after:.1f}"
        yield f"seconds from {words} to its first batch", f"{taken.publishes_after:.1f}"
    yield "what the paused driver wrote, woken", _batches(run.written_by_woken)
    yield "  … and how it ended", name_of_end(run.end_of_woken)


def _batches(numbers: Sequence[int]) -> str:
    if not numbers:
        return "nothing"
    if len(numbers) == 1:
        return f"batch {numbers[0]} again"
    return f"{len(numbers)} batches, {min(numbers)} to {max(numbers)}"


def complaints(with_milepost: Run, plain: Run) -> list[str]:
    """What is not as it must be; nothing, if the demo shows what it is to show."""
    wrong: list[str] = []
    found = with_milepost.found
    if found.wrong_totals or found.rows_out != found.rows_in:
        wrong.append("with Milepost, the totals at the end are not those of the input")
    if found.otherwise:
        wrong.append(f"with Milepost, batches {found.otherwise} were told with different totals")
    if with_milepost.end_of_woken is None:
        wrong.append("with Milepost, the woken driver was not shut out")
    if len(with_milepost.written_by_woken) > 1:
        wrong.append(f"with Milepost, the woken driver went on to batches {with_milepost.written_by_woken}")
    if len(with_milepost.epochs) < 3 or not rising(with_milepost.epochs):
        wrong.append(f"drivers should have led three times at least, under rising epochs, not {with_milepost.epochs}")
    if not plain.found.otherwise:
        wrong.append("plain Spark contradicted itself nowhere: it was not broken where it should have been")
    return wrong

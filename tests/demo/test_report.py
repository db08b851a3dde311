"""The table says what was found, and whatever is not as it must be is complained about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from demo.report.comparison import Comparison
from demo.report.table import Run, complaints, table
from demo.timeline import FENCED, FINISHED, LEADS, PUBLISHED, WOKEN, Event, take_overs
from tests.demo.events import PLAIN, WITH_MILEPOST

EXACT = Comparison(336_776, 336_776, 0, 0, 0, 16, 0, 0)
DOUBLED = replace(EXACT, rows_out=404_132, duplicates=67_356, wrong_sums=15)
GOOD = Run(WITH_MILEPOST, EXACT)
BAD = Run(PLAIN, DOUBLED)


def cells(text: str) -> dict[str, tuple[str, str]]:
    """The table's rows by their names, from columns that are set apart by at least three blanks."""
    rows = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in text.splitlines()[2:]]
    return {name: (left, right) for name, left, right in rows}


def test_the_table_holds_both_runs() -> None:
    text = table(GOOD, BAD)
    assert text.splitlines()[0].split() == ["with", "Milepost", "plain", "Spark"]
    assert len({len(line) for line in text.splitlines()}) == 1, "every line is as wide as the others"
    assert cells(text) == {
        "rows in": ("336,776", "336,776"),
        "rows out": ("336,776", "404,132"),
        "duplicates": ("0", "67,356"),
        "losses": ("0", "0"),
        "carriers whose rows add up wrong": ("0 of 16", "15 of 16"),
        "carriers whose running totals end wrong": ("0 of 16", "0 of 16"),
        "seconds from pause to the next leader": ("4.5", "told after 5.0"),
        "seconds from pause to its first published batch": ("6.5", "7.0"),
        "seconds from kill -9 to the next leader": ("4.0", "told after 5.0"),
        "seconds from kill -9 to its first published batch": ("7.0", "7.0"),
        "what the paused driver published, woken": ("nothing", "batch 0 again"),
        "… and how it ended": ("Fenced", "CONCURRENT_STREAM_LOG_UPDATE"),
    }


def test_nothing_is_wrong_when_all_is_as_it_must_be() -> None:
    assert complaints(GOOD, BAD) == []


def test_rows_that_are_not_exact_are_wrong() -> None:
    assert complaints(Run(WITH_MILEPOST, DOUBLED), BAD) == ["with Milepost, what came out is not what went in"]


@pytest.mark.parametrize(
    ("instead", "expected"),
    [
        (Event(21.5, "A", FINISHED), ["with Milepost, the woken driver was not shut out"]),
        (
            Event(21.5, "A", PUBLISHED, batch=1),
            ["with Milepost, the woken driver published", "with Milepost, the woken driver was not shut out"],
        ),
    ],
)
def test_a_woken_driver_that_is_not_shut_out_is_wrong(instead: Event, expected: list[str]) -> None:
    events = [instead if event.what == FENCED else event for event in WITH_MILEPOST]
    assert complaints(Run(events, EXACT), BAD) == expected


@pytest.mark.parametrize("epochs", [(1, 2), (1, 2, 2), (3, 2, 1), (1, 2, None)])
def test_leaders_without_rising_epochs_are_wrong(epochs: tuple[int | None, ...]) -> None:
    numbers = iter(epochs)
    others = [event for event in WITH_MILEPOST if event.what != LEADS]
    leads = [event for event in WITH_MILEPOST if event.what == LEADS]
    led = [replace(event, epoch=number) for event, number in zip(leads, numbers, strict=False)]
    (complaint,) = complaints(Run(sorted([*others, *led], key=lambda event: event.at), EXACT), BAD)
    assert "rising epochs" in complaint


def test_a_plain_run_that_doubled_nothing_shows_nothing() -> None:
    (complaint,) = complaints(GOOD, Run(PLAIN, EXACT))
    assert "plain Spark doubled nothing" in complaint


def test_runs_over_different_inputs_are_not_to_be_compared() -> None:
    (complaint,) = complaints(GOOD, Run(PLAIN, replace(DOUBLED, rows_in=7)))
    assert "same input" in complaint


def test_a_woken_driver_is_told_apart_from_the_others() -> None:
    assert GOOD.woken == Event(21.0, "A", WOKEN)
    assert GOOD.published_after_waking == []
    assert BAD.published_after_waking == [0]


@pytest.mark.parametrize(("kept", "complaint"), [(6, "nobody took over after A was paused"), (8, "C took over")])
def test_a_fault_without_a_take_over_is_reported(kept: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        take_overs(WITH_MILEPOST[:kept])

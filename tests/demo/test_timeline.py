"""What several processes note is read back in order, and take-overs and attempts are worked out from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from demo.timeline import (
    BEGAN,
    EVALUATED,
    FENCED,
    KILLED,
    LEADS,
    PAUSED,
    PUBLISHED,
    Event,
    EventLog,
    Span,
    parse,
    spans,
    take_overs,
)
from tests.demo.events import PLAIN, WITH_MILEPOST


def test_events_are_read_as_they_were_noted(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events")
    assert log.events() == []
    log.note("A", LEADS, epoch=1)
    log.note("B", BEGAN, batch=7, detail="ä\nb")
    first, second = log.events()
    assert first == Event(first.at, "A", LEADS, epoch=1)
    assert second == Event(second.at, "B", BEGAN, batch=7, detail="ä\nb")
    assert first.at <= second.at


def test_a_detail_stays_short_enough_for_one_write(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events")
    log.note("A", LEADS, detail="x" * 100_000)
    assert (tmp_path / "events").stat().st_size < 4096
    assert log.events()[0].detail.startswith("xxx")


def test_lines_are_sorted_by_time_and_an_unfinished_one_is_left_out() -> None:
    text = (
        '{"at": 2.0, "driver": "A", "what": "leads"}\n{"at": 1.0, "driver": "B", "what": "standby"}\n{"at": 3.0, "dri'
    )
    assert [(event.at, event.driver) for event in parse(text)] == [(1.0, "B"), (2.0, "A")]


def test_take_overs_count_from_the_fault_to_another_driver() -> None:
    after_pause, after_kill = take_overs(WITH_MILEPOST)
    assert (after_pause.fault.what, after_pause.fault.driver) == (PAUSED, "A")
    assert (after_pause.epoch, after_pause.leads_after, after_pause.publishes_after) == (2, 4.5, 6.5)
    assert (after_kill.fault.what, after_kill.fault.driver) == (KILLED, "C")
    assert (after_kill.epoch, after_kill.leads_after, after_kill.publishes_after) == (3, 4.0, 7.0)


def test_what_the_woken_driver_publishes_is_no_take_over() -> None:
    after_pause, after_kill = take_overs(PLAIN)
    assert (after_pause.leads_after, after_pause.publishes_after) == (5.0, 7.0)
    assert (after_kill.leads_after, after_kill.publishes_after) == (5.0, 7.0)


@pytest.mark.parametrize(("kept", "complaint"), [(6, "nobody took over after A was paused"), (8, "C took over")])
def test_a_fault_without_a_take_over_is_told(kept: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        take_overs(WITH_MILEPOST[:kept])


def test_each_attempt_at_a_batch_is_a_span() -> None:
    assert list(spans(WITH_MILEPOST)) == [
        Span("A", 0, 11.0, 12.0, PUBLISHED),
        Span("A", 1, 12.5, 21.5, FENCED),
        Span("C", 1, 19.0, 20.0, PUBLISHED),
        Span("B", 1, 27.0, 27.5, EVALUATED),
        Span("B", 2, 28.0, 29.0, PUBLISHED),
    ]


def test_an_attempt_that_nothing_followed_has_no_length() -> None:
    only = replace(WITH_MILEPOST[1], at=5.0)
    assert list(spans([only])) == [Span("A", 0, 5.0, 5.0, BEGAN)]

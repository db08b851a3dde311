"""Events are told in one line each, once, and those that say nothing to a reader are left out."""

from __future__ import annotations

import re
import time

import pytest

from demo.progress import Progress, told
from demo.timeline import BEGAN, FAILED, HALTED, LEADS, PUBLISHED, Event


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Event(0, "driver A", LEADS, epoch=3), "driver A leads, epoch 3"),
        (Event(0, "driver A", LEADS), "driver A begins"),
        (Event(0, "driver A", PUBLISHED, batch=4), "driver A published batch 4"),
        (
            Event(0, "driver A", HALTED, batch=4, detail="before publishing"),
            "driver A stands still in batch 4, before publishing",
        ),
        (Event(0, "driver A", FAILED, detail="{two}\n  lines"), "driver A failed: {two} lines"),
        (Event(0, "driver A", BEGAN, batch=4), ""),
    ],
)
def test_an_event_in_words(event: Event, line: str) -> None:
    assert told(event) == line


def test_a_long_reason_stays_on_its_line() -> None:
    assert len(told(Event(0, "driver A", FAILED, detail="x" * 500))) == 110


def test_each_event_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    events = [Event(0, "driver A", LEADS), Event(1, "driver A", BEGAN, batch=0)]
    progress = Progress()
    progress.begin("plain Spark")
    progress.show(events)
    progress.show([*events, Event(2, "driver A", PUBLISHED, batch=0)])
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"^ *-?[\d.]+ s ", "", line) for line in lines] == [
        " PLAIN SPARK",
        "   driver A begins",
        "   driver A published batch 0",
    ]


def test_it_knows_how_long_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter((100.0, 183.5))
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    assert Progress().seconds() == 83.5

"""Draws what happened in one run of ``make demo``, from the events that its drivers noted.

After ``make demo``, ``python -m tools.site.demo_timeline demo-output`` keeps the events of that run, and
``python -m tools.site.pictures`` draws them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from demo.timeline import EVALUATED, FENCED, HALTED, KILLED, LEADS, PAUSED, WOKEN, Event, Span, parse, spans
from tools.site.svg import Picture

HERE = Path(__file__).parents[2] / "docs" / "pictures"
RUNS = (
    ("With Milepost", "with-milepost"),
    ("Plain Spark, the same job broken in the same places", "plain-spark"),
)
"""What stands above each run, and the directory that the demo gives it."""

_WIDTH, _HEIGHT, _LEFT, _STEP = 900, 236, 62, 15
_COLOURS = "abc"
_NOTES = {EVALUATED: "not published again", FENCED: "shut out"}
_FAULTS = {PAUSED: "A freezes", WOKEN: "A wakes", KILLED: "B is killed"}


def picture() -> Picture:
    """Draw both runs, one above the other on one scale of time."""
    runs = [(title, parse(_kept(run).read_text(encoding="utf-8"))) for title, run in RUNS]
    last = max(max(span.end for span in spans(events)) - _zero(events) for _, events in runs)
    drawn = Picture(
        _WIDTH,
        2 * _HEIGHT + 30,
        "One job, three drivers, a freeze and a kill",
        f"""Batches of a Spark job over {last:.0f} seconds, once with Milepost and once without. Driver A freezes in
        batch 2; driver B takes over and goes on to batch 6. A wakes, B is killed, and driver C goes on to batch 9. With
        Milepost, A is shut out when it wakes, and C does not publish batch 6 again. Without it, A publishes batch 2
        again and C publishes batch 6 again.""",
    )
    for number, (title, events) in enumerate(runs):
        _draw(drawn, title, events, number * _HEIGHT, (_WIDTH - _LEFT - 160) / last)
    legend = "seconds since driver A began to lead; a dot: the batch is published"
    drawn.text(_LEFT, 2 * _HEIGHT + 16, legend, "small", "start")
    return drawn


def keep(output: Path) -> None:
    """Keep the events of the run that left ``output``, with the times since it began and no words of Spark's."""
    for _, run in RUNS:
        events = parse((output / run / "events.jsonl").read_text(encoding="utf-8"))
        lines = [replace(each, at=round(each.at - events[0].at, 6), detail="") for each in events]
        _kept(run).write_text("".join(f"{json.dumps(asdict(each))}\n" for each in lines), encoding="utf-8")


def _kept(run: str) -> Path:
    return HERE / f"demo-{run}.jsonl"


def _zero(events: Sequence[Event]) -> float:
    return next(event.at for event in events if event.what == LEADS)


def _draw(drawn: Picture, title: str, events: Sequence[Event], top: float, scale: float) -> None:
    zero = _zero(events)
    drivers = [event.driver for event in events if event.what == LEADS]
    bottom = top + _HEIGHT - 22
    drawn.text(16, top + 26, title, "strong", "start")
    for second in range(0, 26, 5):
        x = _LEFT + second * scale
        drawn.line((x, top + 56), (x, bottom), "grid")
        drawn.text(x, bottom + 16, str(second), "small")
    for number, driver in enumerate(drivers):
        drawn.bar(_WIDTH - 400 + 130 * number, top + 16, 12, 12, _COLOURS[number])
        epoch = next(event.epoch for event in events if event.what == LEADS and event.driver == driver)
        words = f"{driver}, epoch {epoch}" if epoch else driver
        drawn.text(_WIDTH - 382 + 130 * number, top + 27, words, "small", "start")
    for event in events:
        if event.what in _FAULTS:
            x = _LEFT + (event.at - zero) * scale
            drawn.line((x, top + 56), (x, bottom), "dashed")
            before = event.what == WOKEN
            drawn.text(x - 4 if before else x + 4, top + 54, _FAULTS[event.what], "small", "end" if before else "start")
    seen: set[int] = set()
    for span in sorted(spans(events), key=lambda each: each.end):
        y = bottom - 8 - span.batch * _STEP
        again = span.published and span.batch in seen
        kind = _COLOURS[drivers.index(span.driver)]
        _attempt(drawn, span, events, lambda at: _LEFT + (at - zero) * scale, y, kind, again=again)
        if span.published:
            seen.add(span.batch)
    for batch in sorted(seen):
        words = f"batch {batch}" if batch in (0, max(seen)) else str(batch)
        drawn.text(_LEFT - 14, bottom - 4 - batch * _STEP, words, "small", "end")


def _attempt(
    drawn: Picture,
    span: Span,
    events: Sequence[Event],
    x_of: Callable[[float], float],
    y: float,
    kind: str,
    *,
    again: bool,
) -> None:
    within = [event for event in events if event.driver == span.driver and span.start < event.at < span.end]
    halted = next((event.at for event in within if event.what == HALTED), span.end)
    woken = next((event.at for event in within if event.what == WOKEN), span.end)
    for start, end in ((span.start, halted), (woken, span.end)):
        if end > start:
            drawn.bar(x_of(start), y - 5, max(x_of(end) - x_of(start), 4), 10, kind)
    if woken > halted:
        drawn.line((x_of(halted), y), (x_of(woken), y), kind)
    if span.published:
        drawn.dot(x_of(span.end), y, "wrong" if again else "")
    note = "published again" if again else _NOTES.get(span.outcome)
    if note:
        drawn.text(x_of(span.end) + 12, y + 4, note, "wrong" if again else "right", "start")


if __name__ == "__main__":
    keep(Path(sys.argv[1]))

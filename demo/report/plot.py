"""The picture of the runs: each attempt at a batch as a bar in the colour of its driver, and what was done to whom."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from demo.timeline import (
    EVALUATED,
    FENCED,
    HALTED,
    KILLED,
    LEADS,
    PAUSED,
    SERVICE_KILLED,
    WOKEN,
    Event,
    Span,
    spans,
)

_COLOURS = ("#4477aa", "#ee9933", "#228866")
_WRONG, _RIGHT = "#cc2233", "#227744"
_NOTES = {EVALUATED: "not published again", FENCED: "shut out"}
_FAULTS = {PAUSED: "paused", WOKEN: "woken", KILLED: "killed", SERVICE_KILLED: "killed"}


def draw(runs: Sequence[tuple[str, Sequence[Event]]], path: Path) -> None:
    """Write a PNG to ``path``: for each run its title and its events, one above the other on one scale of time."""
    plotted(runs).savefig(path)


def plotted(runs: Sequence[tuple[str, Sequence[Event]]]) -> Figure:
    """The figure itself."""
    figure = Figure(figsize=(11, 4.2 * len(runs)), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (title, events) in zip(axes, runs, strict=True):
        _draw_run(ax, title, events)
    axes[-1].set_xlim(-1, max(_seconds(events) for _, events in runs) * 1.1)  # with room for a note at the last bar
    axes[-1].set_xlabel("seconds since the first driver began to lead")
    return figure


def _seconds(events: Sequence[Event]) -> float:
    """How long a run took, from where its scale begins to the end of the last attempt."""
    zero = next(event.at for event in events if event.what == LEADS)
    return max(span.end for span in spans(events)) - zero


def _draw_run(ax: Axes, title: str, events: Sequence[Event]) -> None:
    leaders = [event for event in events if event.what == LEADS]
    zero = leaders[0].at
    colours = {event.driver: _COLOURS[index % len(_COLOURS)] for index, event in enumerate(leaders)}
    seen: set[int] = set()
    attempts = sorted(spans(events), key=lambda span: span.end)
    for span in attempts:
        _draw_span(ax, span, events, zero, colours[span.driver], again=span.published and span.batch in seen)
        if span.published:
            seen.add(span.batch)
    top = max(span.batch for span in attempts) + 1.0
    for event in events:
        if event.what in _FAULTS:
            x = event.at - zero
            ax.axvline(x, color="#555555", linestyle="--", linewidth=1)
            side = "right" if event.what == WOKEN else "left"
            text = f" {event.driver} \n {_FAULTS[event.what]} "
            ax.text(x, top + 0.1, text, va="top", ha=side, fontsize=9, color="#333333")
    ax.set_title(title, loc="left", fontweight="bold")
    ax.set_ylabel("batch")
    ax.set_yticks(range(int(top)))
    ax.set_ylim(-0.7, top + 0.3)
    ax.grid(axis="y", color="#eeeeee")
    ax.set_axisbelow(True)
    handles = [
        Patch(color=colours[e.driver], label=f"{e.driver}" + (f", epoch {e.epoch}" if e.epoch else "")) for e in leaders
    ]
    ax.legend(handles=handles, loc="lower right", fontsize=9)


def _draw_span(ax: Axes, span: Span, events: Sequence[Event], zero: float, colour: str, *, again: bool) -> None:
    """A bar while the driver worked, a dotted line while it stood still, a dot where the batch was published."""
    within = [e for e in events if e.driver == span.driver and span.start < e.at < span.end]
    halted = next((e.at for e in within if e.what == HALTED), span.end)
    woken = next((e.at for e in within if e.what == WOKEN), span.end)
    for start, end in ((span.start, halted), (woken, span.end)):
        if end > start:
            ax.barh(span.batch, max(end - start, 0.15), left=start - zero, height=0.55, color=colour)
    ax.hlines(span.batch, halted - zero, woken - zero, color=colour, linestyle=":", linewidth=2)
    if span.published:
        ax.plot(span.end - zero, span.batch, "o", color=_WRONG if again else "black", markersize=7 if again else 4)
    note = "published again" if again else _NOTES.get(span.outcome)
    if note:
        colour = _WRONG if again else _RIGHT
        ax.annotate(
            note, (span.end - zero, span.batch), xytext=(8, -3), textcoords="offset points",
            fontsize=9, color=colour, fontweight="bold",
        )  # fmt: skip

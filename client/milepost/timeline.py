"""The timeline of a job: which of its published batches count after restores took the job back.

A driver publishes a batch at most once under its epoch, so a batch and an epoch together name one publication. A
restore to batch N under the epoch X begins a new timeline: of what was published under epochs below X, batches above N
count no more, and what is published under X and later counts again. The name is PostgreSQL's, whose point-in-time
recovery begins a new timeline in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Stretch:
    """The publications of batches up to ``last``, under the epochs from ``first`` up to, but not including, ``end``.

    None: no bound.
    """

    first: int = 0
    end: int | None = None
    last: int | None = None

    def contains(self, batch: int, epoch: int) -> bool:
        """Return whether the publication of ``batch`` under ``epoch`` belongs to this stretch."""
        return (
            self.first <= epoch and (self.end is None or epoch < self.end) and (self.last is None or batch <= self.last)
        )


Timeline = tuple[Stretch, ...]
"""The publications of a job that count: those of all stretches, which are in the order of their epochs."""

UNRESTORED: Timeline = (Stretch(),)
"""The timeline of a job that was never restored: every publication counts."""


def contains(timeline: Timeline, batch: int, epoch: int) -> bool:
    """Return whether the publication of ``batch`` under ``epoch`` counts."""
    return any(stretch.contains(batch, epoch) for stretch in timeline)


def restored(timeline: Timeline, batch: int, epoch: int) -> Timeline:
    """Return the timeline after a restore to ``batch`` under ``epoch``: ``timeline`` up to that batch, and then
    whatever is published from that epoch on.
    """
    kept = (
        replace(stretch, last=batch if stretch.last is None else min(stretch.last, batch))
        for stretch in ended(timeline, epoch)
    )
    return (*kept, Stretch(epoch))


def ended(timeline: Timeline, epoch: int) -> Timeline:
    """Return a timeline that ends with the epochs below ``epoch``: nothing that is published from then on counts."""
    return tuple(
        replace(stretch, end=epoch if stretch.end is None else min(stretch.end, epoch))
        for stretch in timeline
        if stretch.first < epoch
    )


def restored_under(timeline: Timeline) -> int:
    """Return the epoch of the last restore; 0 if the job was never restored."""
    return timeline[-1].first


def to_json(timeline: Timeline) -> list[list[int | None]]:
    """Convert a timeline to JSON."""
    return [[stretch.first, stretch.end, stretch.last] for stretch in timeline]


def from_json(raw: Any) -> Timeline:
    """Read a timeline from its JSON. Raises TypeError or ValueError if it is not the JSON of a timeline."""
    found = tuple(Stretch(whole_number(first), _bound(end), _bound(last)) for first, end, last in raw)
    if not found:
        raise ValueError("a timeline has at least one stretch")
    return found


def whole_number(value: Any) -> int:
    """Return ``value`` if it is an int. Raises TypeError otherwise, also for a bool."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _bound(value: Any) -> int | None:
    return None if value is None else whole_number(value)

"""The settings of a journal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Times in seconds. ``most_waiting``: requests that may wait to be submitted. ``epoch_floor``: granted epochs
    are above it. ``most_uploads``: how many a store may have pending. ``give_up_seconds``: how long who holds the lease
    may fail to take the journal over. ``accepted_losses``: names of damages that the owner goes on from.
    """

    commit_seconds: float = 10.0
    take_over_seconds: float = 30.0
    give_up_seconds: float = 30.0
    most_waiting: int = 10_000
    epoch_floor: int = 0
    most_uploads: int = 1000
    accepted_losses: frozenset[str] = frozenset()

"""The settings of a journal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Limits of a journal. Times are in seconds.

    ``commit_seconds`` bounds one commit, ``take_over_seconds`` each step of a take-over. ``give_up_seconds``: how long
    a leader with a lease keeps trying to take the journal over before it lets another replica try. ``most_waiting``:
    how many requests may wait to be committed. ``epoch_floor``: every granted epoch is above this number.
    ``most_uploads``: how many pending uploads a store may have. ``accepted_losses``: the names of the losses that the
    owner accepts.
    """

    commit_seconds: float = 10.0
    take_over_seconds: float = 30.0
    give_up_seconds: float = 30.0
    most_waiting: int = 10_000
    epoch_floor: int = 0
    most_uploads: int = 1000
    accepted_losses: frozenset[str] = frozenset()

"""The time that the server waits for a slow peer: one rule for heads, bodies and answers."""

from __future__ import annotations

from typing import Final

LEAST_BYTES_PER_SECOND: Final = 1024


class PeerTimeBudget:
    """The seconds that the server still waits for a peer.

    Waiting uses them up, and transferred bytes give them back: one second for each `LEAST_BYTES_PER_SECOND` bytes, and
    never more than there were at first. So the wait for a silent peer ends after ``seconds``, and for a peer below that
    rate a little later. Time in which the server does not wait for the peer is not counted.
    """

    __slots__ = ("_most", "left")

    def __init__(self, seconds: float) -> None:
        self._most = self.left = seconds

    def spend(self, seconds: float, moved: int = 0) -> None:
        """Count a wait of ``seconds`` in which ``moved`` bytes were transferred."""
        self.left = min(self._most, self.left - seconds + moved / LEAST_BYTES_PER_SECOND)

    @property
    def is_spent(self) -> bool:
        """Whether the server does not wait for the peer any more."""
        return self.left <= 0

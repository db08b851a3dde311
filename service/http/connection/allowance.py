"""How long a peer is waited for: the one rule by which heads, bodies and answers that are slow come to an end."""

from __future__ import annotations

from typing import Final

LEAST_BYTES_PER_SECOND: Final = 1024


class Allowance:
    """Seconds of waiting that a peer has left. Waiting uses them up, and what gets through gives them back: a second
    for each `LEAST_BYTES_PER_SECOND`, and never more than there were at first.

    So silence ends after ``seconds``, and what is slower than that rate a little later. Time in which it is not the
    peer that is waited for is not spent.
    """

    __slots__ = ("_most", "left")

    def __init__(self, seconds: float) -> None:
        self._most = self.left = seconds

    def spend(self, seconds: float, moved: int = 0) -> None:
        """Count a wait in which so many bytes got through."""
        self.left = min(self._most, self.left - seconds + moved / LEAST_BYTES_PER_SECOND)

    @property
    def is_spent(self) -> bool:
        """Whether nobody waits for the peer any more."""
        return self.left <= 0

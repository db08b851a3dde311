"""Elections: who may try to lead, and until when that is certain.

Winning an election grants nothing by itself: the leader takes its journals over by compare-and-set. What the election
proves is that the predecessor's lease is over, and what it gives is a lease inside which reads may be answered from
memory.
"""

from __future__ import annotations

from typing import Protocol


class Leadership(Protocol):
    """One won election, held by this process until it resigns or loses it."""

    def remaining(self, now: float) -> float:
        """Seconds for which leadership is certain, counted from ``now`` (monotonic); 0 or less when it is not.

        ``math.inf`` where the lease lasts as long as the process lives (a lock on a local file). Cheap: called on each
        read.
        """

    async def wait_lost(self) -> None:
        """Return once leadership is lost for good; cancellable."""

    async def resign(self) -> None:
        """Give leadership up so that another can win at once. Idempotent; never raises for a store that is away."""


class Election(Protocol):
    """One candidate's view of an election."""

    async def open(self) -> None:
        """Connect or open. Idempotent. Raises `Misconfigured` or `StorageUnavailable`."""

    async def close(self) -> None:
        """Withdraw the candidacy and let go of every resource. Idempotent.

        Leadership that was won ends, a campaign under way ends with `StorageUnavailable`.
        """

    async def campaign(self) -> Leadership:
        """Wait until this candidate leads. Cancellable at any time without a trace. Raises `StorageUnavailable`."""

    async def leader(self) -> str | None:
        """The advertised URL of whoever leads as far as this replica can see, or None. Raises `StorageUnavailable`."""

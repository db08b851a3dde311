"""The contract of an election: which replica may try to lead, and for how long that is certain.

Winning an election grants nothing by itself: the leader takes its journals over by compare-and-set. The election proves
that the predecessor's lease is over, and grants a lease, within which the leader may answer reads from memory.
"""

from __future__ import annotations

from typing import Protocol


class Leadership(Protocol):
    """One won election. This process leads until it resigns or loses it."""

    def remaining(self, now: float) -> float:
        """Return the seconds for which leadership is certain, counted from ``now`` (monotonic); 0 or less if it is not.

        The result is ``math.inf`` if the lease lasts as long as the process lives (a lock on a local file). The call
        must be cheap: it is made on each read.
        """

    async def wait_lost(self) -> None:
        """Return once leadership is permanently lost. The wait can be cancelled."""

    async def resign(self) -> None:
        """Give leadership up so that another replica can win at once.

        The call is idempotent, and raises nothing if the store cannot be reached.
        """


class Election(Protocol):
    """One candidate's view of an election, in which candidates compete for the lead."""

    async def open(self) -> None:
        """Connect to the election, or open its files. Idempotent. Raises `Misconfigured` or `StorageUnavailable`."""

    async def close(self) -> None:
        """Withdraw the candidacy and release every resource. Idempotent.

        A leadership that was won ends, and a running campaign ends with `StorageUnavailable`.
        """

    async def campaign(self) -> Leadership:
        """Wait until this candidate leads. Raises `StorageUnavailable`.

        The wait can be cancelled at any time, and then leaves no trace.
        """

    async def leader(self) -> str | None:
        """Return the advertised URL of the current leader, as far as this replica can see it, or None.

        Raises `StorageUnavailable`.
        """

"""The contract of an election: which replica may try to lead, and for how long its leadership is certain.

Winning an election does not yet allow writes: for that the winner takes its journals over by compare-and-set. The
election proves that the lease of the previous leader is over, and grants a lease to the winner. Within its lease, a
leader may answer reads from memory.
"""

from __future__ import annotations

from typing import Protocol


class Leadership(Protocol):
    """An election that this process has won. The process leads until it resigns or loses the lease."""

    def remaining(self, now: float) -> float:
        """Return the seconds, counted from ``now`` (monotonic), for which it is certain that no other replica leads.

        0 or less means that it is not certain any more; ``math.inf`` means that the lease lasts as long as the process
        lives, as with a lock on a local file. An implementation must be cheap, since the service calls it on each read.
        """

    async def wait_lost(self) -> None:
        """Return once this leadership is permanently lost. A caller may cancel the wait."""

    async def resign(self) -> None:
        """End this leadership, so that another replica can win the election at once.

        Idempotent. If the storage of the election cannot be reached, this raises nothing, and the lease is left to
        expire.
        """


class Election(Protocol):
    """An election for the lead, as one candidate sees it: the candidate can campaign, and can ask who leads."""

    async def open(self) -> None:
        """Connect to the election, or open its files. Idempotent. Raises `Misconfigured` or `StorageUnavailable`."""

    async def close(self) -> None:
        """Withdraw this candidate and release every resource. Idempotent.

        If this candidate leads, its leadership ends. A running `campaign` raises `StorageUnavailable`.
        """

    async def campaign(self) -> Leadership:
        """Wait until this candidate wins the election, and return its leadership. Raises `StorageUnavailable`.

        The wait can be cancelled at any time; the candidacy is then withdrawn.
        """

    async def leader(self) -> str | None:
        """Return the advertised URL of the current leader; None if this replica sees no leader. Raises
        `StorageUnavailable`.
        """

"""Try the stores that a replica would use, one after the other, and say of each what was found.

Nothing is founded, no leadership is taken, and nothing of a deployment is changed: a replica may serve meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from milepost_backends.contract import (
    BackendError,
    BlobStore,
    Election,
    PointerStore,
    StorageFull,
    StorageRefused,
    StorageUnavailable,
)
from milepost_server.basics.timeouts import within
from milepost_server.blobs.timeouts import BlobsWithTimeout
from milepost_server.blobs.trial import BlobTrial

STORE_SECONDS: Final = 120.0
"""The trial of a store takes this long at most."""
_CLOSE_SECONDS: Final = 10.0
_STEP_SECONDS: Final = 30.0


class Verdict(Enum):
    """What a trial showed: the status with which a check ends, and the words for it. The gravest comes last."""

    OK = 0, "ok"
    FULL = 75, "no room"
    UNAVAILABLE = 75, "no answer"
    REFUSED = 2, "refused"

    def __init__(self, status: int, words: str) -> None:
        self.status = status
        self.words = words


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one store. ``overran`` says that its trial still runs, and was left behind."""

    store: str
    verdict: Verdict
    what: str
    overran: bool = False

    def __str__(self) -> str:
        """Return the line that a check prints."""
        return f"{self.store}: {self.verdict.words}: {' '.join(self.what.split())}"


def status_of(findings: list[Finding]) -> int:
    """Return the exit status: a refusal, which somebody has to repair, counts for more than an outage."""
    gravity = list(Verdict).index
    return max((finding.verdict for finding in findings), key=gravity, default=Verdict.OK).status


class _Store(Protocol):
    async def open(self) -> None: ...
    async def close(self) -> None: ...


async def try_stores(
    pointers: PointerStore, election: Election, blobs: BlobStore, seconds: float = STORE_SECONDS
) -> AsyncIterator[Finding]:
    """Yield what was found of each store, as soon as it is known. Each takes at most ``seconds``."""
    bounded = BlobsWithTimeout(blobs, min(_STEP_SECONDS, seconds))
    trial = BlobTrial(bounded, min(_STEP_SECONDS, seconds))
    yield await _tried("pointers", pointers, lambda: _looked_at(pointers), seconds)
    yield await _tried("election", election, lambda: _asked(election), seconds)
    yield await _tried("blobs", bounded, trial.run, seconds)


async def _tried(name: str, store: _Store, use: Callable[[], Awaitable[str]], seconds: float) -> Finding:
    async def opened_and_used() -> str:
        await store.open()
        return await use()

    overran = False
    try:
        what, verdict = await within(seconds, opened_and_used()), Verdict.OK
    except TimeoutError as error:
        what, verdict, overran = str(error), Verdict.UNAVAILABLE, True
    except StorageRefused as error:
        what, verdict = str(error), Verdict.REFUSED
    except StorageFull as error:
        what, verdict = str(error), Verdict.FULL
    except StorageUnavailable as error:
        what, verdict = str(error), Verdict.UNAVAILABLE
    except BackendError as error:
        what, verdict = str(error), Verdict.REFUSED
    try:
        await within(_CLOSE_SECONDS, store.close())
    except TimeoutError:
        overran = True
    return Finding(name, verdict, what, overran)


async def _looked_at(pointers: PointerStore) -> str:
    """Say what is in the pointer store. Raises `StorageFull` if it would accept no records now."""
    journals = await pointers.journals()
    if (full := pointers.full) is not None:
        raise StorageFull(full)
    there = "the records of a deployment are there" if journals else "no deployment was founded there yet"
    return f"opened and read {pointers.place}; {there}"


async def _asked(election: Election) -> str:
    leader = await election.leader()
    return f"opened and read; {'no replica leads' if leader is None else f'{leader} leads'}"

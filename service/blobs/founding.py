"""The founding mark: a blob that tells that a deployment was founded on certain pointers.

It lies where the pointers do not. Pointers of which nothing is left at all cannot tell that there ever were any; a
replica that finds them empty looks here before it begins an empty service. The key is made of the place of the
pointers, so that two deployments that share a blob store leave each other alone.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress

from backends.contract import (
    BlobExists,
    BlobMissing,
    BlobTruncated,
    JournalDamaged,
    PointerStore,
)
from service.blobs.timeouts import BlobsWithTimeout

log = logging.getLogger("milepost.founding")

DIRECTORY = "founded"
"""No id of a deployment, with which the keys of all other blobs begin."""
_MOST_BYTES = 1000
_SHOWN = 40


class FoundingMark:
    """The mark in ``blobs`` of the deployment on ``pointers``, which are open. ``accepted``: see `JournalDamaged`."""

    def __init__(self, blobs: BlobsWithTimeout, pointers: PointerStore, accepted: Collection[str]) -> None:
        self._blobs = blobs
        self._pointers = pointers
        self._accepted = frozenset(accepted)

    @property
    def key(self) -> str:
        """Of its blob."""
        return f"{DIRECTORY}/{hashlib.blake2b(self._pointers.place.encode(), digest_size=16).hexdigest()}"

    async def refuse_to_found(self) -> None:
        """Raises `JournalDamaged` if a deployment was founded here before, though nothing of it is left, unless its
        owner accepted that; `StorageUnavailable`.
        """
        deployment = await self._read()
        if deployment is None:
            return
        what = (
            f"the blob {self.key} tells that deployment {_shown(deployment)} was founded in {self._pointers.place},"
            " where its record is not any more"
        )
        error = JournalDamaged(
            f"{what}: put all records back; if this is another deployment, give it another place for blobs",
            f"{self.key} {deployment}",
        )
        if error.loss not in self._accepted:
            raise error
        log.error("%s: accepted as the loss %s; see --epochs-above for epochs granted before", what, error.loss)

    async def set(self, deployment: str, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Have the mark tell of ``deployment``, whatever it told before. Raises `StorageUnavailable`, `StorageFull`.

        Left as it is if, once it was read, ``may_go_on`` says no: a successor's may stand there.
        """
        if (told := await self._read()) == deployment or not may_go_on():
            return
        if told is not None:
            log.warning(
                "the founding mark %s told of deployment %s, and tells of %s from now on: if both are in use, give one"
                " of them another place for blobs",
                self.key,
                _shown(told),
                deployment,
            )
            await self._blobs.delete_in_time(self.key)
        with suppress(BlobExists):  # another leader, at the same time: the next one looks again
            await self._blobs.put(self.key, _stream(deployment.encode()))

    async def _read(self) -> str | None:
        """The deployment that the mark tells of, or whatever stands there if it was altered; None: there is none."""
        content = b""
        try:
            async for chunk in self._blobs.get(self.key, 0, _MOST_BYTES):
                content += chunk
        except BlobMissing:
            return None
        except BlobTruncated:
            pass
        return content.decode("latin-1")


def _shown(told: str) -> str:
    """Fit for one line of a log, whatever was put there."""
    return ascii(told) if len(told) <= _SHOWN else f"{told[:_SHOWN]!a}…"


async def _stream(content: bytes) -> AsyncIterator[bytes]:
    yield content

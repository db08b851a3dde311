"""The deployment marker: a blob which shows that a deployment keeps its pointers, the records of its journal, in a
certain place.

It is stored apart from the pointers. If all pointers are lost, nothing in the pointer store shows that they existed. So
a replica that finds no pointers reads the marker before it creates a new, empty deployment. The key of the marker is
derived from the location of the pointers, so that two deployments that share a blob store have different markers.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection
from contextlib import suppress

from milepost_backends.contract import (
    BlobExists,
    BlobMissing,
    BlobTruncated,
    JournalDamaged,
    PointerStore,
)
from milepost_server.basics.pieces import stream_of
from milepost_server.blobs.timeouts import BlobsWithTimeout

log = logging.getLogger("milepost.deployment_marker")

DIRECTORY = "founded"
"""The first segment of markers' keys; no deployment has this id, and all other keys begin with a deployment's id."""
_MOST_BYTES = 1000
_SHOWN = 40


class DeploymentMarker:
    """Reads and writes the marker, in ``blobs``, of the deployment whose records are in ``pointers``, which is open.

    ``accepted`` names the losses of data that the owner of the deployment has accepted, as `JournalDamaged.loss` does.
    """

    def __init__(self, blobs: BlobsWithTimeout, pointers: PointerStore, accepted: Collection[str]) -> None:
        self._blobs = blobs
        self._pointers = pointers
        self._accepted = frozenset(accepted)

    @property
    def key(self) -> str:
        """Return the key of the marker's blob."""
        return f"{DIRECTORY}/{hashlib.blake2b(self._pointers.place.encode(), digest_size=16).hexdigest()}"

    async def refuse_to_found(self) -> None:
        """Raise `JournalDamaged` if the marker shows that a deployment existed here before. Call this if the pointer
        store contains no deployment.

        If the owner has accepted this loss, it is only logged. Raises `StorageUnavailable` if the marker cannot be
        read.
        """
        deployment = await self._read()
        if deployment is None:
            return
        what = (
            f"the blob {self.key} shows that deployment {_shown(deployment)} was founded in {self._pointers.place},"
            " but its record is gone"
        )
        error = JournalDamaged(
            f"{what}: restore all records; if this is another deployment, give it another place for blobs",
            f"{self.key} {deployment}",
        )
        if error.loss not in self._accepted:
            raise error
        log.error("%s: accepted as the loss %s; see --epochs-above for epochs granted before", what, error.loss)

    async def set(self, deployment: str, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Make the marker name the deployment with the id ``deployment``, in place of any other. Raises
        `StorageUnavailable`, `StorageFull`.

        The marker is read first. If ``may_go_on`` then returns False, this replica may not lead any more, and the
        marker stays unchanged: the next leader may have written it.
        """
        if (found := await self._read()) == deployment or not may_go_on():
            return
        if found is not None:
            log.warning(
                "the deployment marker %s named deployment %s, and names %s from now on: if both are in use, give one"
                " of them another place for blobs",
                self.key,
                _shown(found),
                deployment,
            )
            await self._blobs.delete_in_time(self.key)
        # another leader wrote the marker at the same time; the next periodic call compares the marker again
        with suppress(BlobExists):
            await self._blobs.put(self.key, stream_of(deployment.encode()))

    async def _read(self) -> str | None:
        """Return the id of the deployment that the marker names, or the content of an altered marker; None if there is
        no marker.
        """
        content = b""
        try:
            async for chunk in self._blobs.get(self.key, 0, _MOST_BYTES):
                content += chunk
        except BlobMissing:
            return None
        except BlobTruncated:
            pass
        return content.decode("latin-1")


def _shown(text: str) -> str:
    """Return the text, or the beginning of a long text, quoted in ASCII, so that it fits into one line of the log."""
    return ascii(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!a}…"

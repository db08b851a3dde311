"""A file above 1 MiB that was acknowledged before something is damaged, read from several places.

What is served from any place must be what was put there, up to where it is cut off.
"""

from __future__ import annotations

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.blobs.delivery import DeliveryCut, blob_ref
from milepost_server.blobs.range_delivery import RangeDelivery
from milepost_server.operations.trees import At
from tests.corrupt.files import FileHistory
from tests.corrupt.history import Silent, named
from tests.service.acting import STORE
from tests.support.files import put_at
from tests.support.servers.replicas import Rig

_PATH = "large"
_CONTENT = b"".join(b"%015d\n" % number for number in range(100_000))
_PLACES = (0, 1, 700_000, len(_CONTENT) - 8)


class LargeFileHistory(FileHistory):
    """See `FileHistory`; and one large file, which stays as it is."""

    async def begin(self, rig: Rig) -> None:
        """See `FileHistory.begin`."""
        await super().begin(rig)
        await put_at(rig.replica, rig.operations, At(STORE, _PATH), self.epoch, _CONTENT, overwrite=False, key=_PATH)

    async def losses(self, rig: Rig) -> list[str]:
        """See `History.losses`. Raises `Silent` for a byte that is served and was never put there."""
        found = await super().losses(rig)
        ref = blob_ref(rig.operations.trees.readable(At(STORE, _PATH)))
        for start in _PLACES:
            got = bytearray()
            try:
                async for chunk in await RangeDelivery(rig.replica.blobs).deliver(ref, start):
                    got += chunk
            except Problem as problem:
                if problem.code is Code.NO_LEADER:
                    raise
                found.append(named(_PATH, problem))
            except DeliveryCut as cut:
                found.append(f"{_PATH} is cut off: {cut}")
            else:
                if len(got) != len(_CONTENT) - start:
                    raise Silent(f"{len(got)} bytes from {start} on are served as all that there are")
            if got != _CONTENT[start : start + len(got)]:
                raise Silent(f"other bytes are served from {start} on than were put there")
        return found

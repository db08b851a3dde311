"""Keep the key that the replicas of a deployment share, and nobody else: it proves what one of them says to another.

It lies beside the blobs, where whoever can read it could read every file anyway. It is made once, when it is first
needed, by whichever replica needs it; the place of the pointers names it, as it does the founding mark.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import suppress

from backends.contract import BlobExists, BlobMissing, BlobTruncated, PointerStore, StorageFull, StorageUnavailable
from milepost.wire import Code
from service.basics.problems import problem
from service.basics.streams import stream_of
from service.blobs.timeouts import BlobsWithTimeout

DIRECTORY = "doors"
"""No deployment has this id, and the keys of all other blobs begin with a deployment's id."""

_KEY = re.compile(rb"[0-9a-f]{64}")


class SharedKey:
    """The key of the deployment on ``pointers``, in ``blobs``. It is read once, and remembered."""

    def __init__(self, blobs: BlobsWithTimeout, pointers: PointerStore) -> None:
        self._blobs = blobs
        self._pointers = pointers
        self._known: bytes | None = None

    @property
    def name(self) -> str:
        """The name of its blob."""
        return f"{DIRECTORY}/{hashlib.blake2b(self._pointers.place.encode(), digest_size=16).hexdigest()}"

    async def get(self) -> bytes:
        """Return the key; make it if there is none. Raises ``storage-unavailable`` and ``storage-full`` problems."""
        if self._known is None:
            try:
                self._known = await self._read() or await self._made()
            except StorageFull as error:
                raise problem(Code.STORAGE_FULL, f"the key that replicas share cannot be made: {error}") from error
            except StorageUnavailable as error:
                raise problem(
                    Code.STORAGE_UNAVAILABLE, f"the key that replicas share cannot be read: {error}"
                ) from error
        return self._known

    async def _made(self) -> bytes:
        with suppress(BlobExists):  # another replica made it at the same time
            await self._blobs.put(self.name, stream_of(secrets.token_hex(32).encode()))
        made = await self._read()
        if made is None:
            raise StorageUnavailable("it was gone as soon as it was made")
        return made

    async def _read(self) -> bytes | None:
        content = b""
        try:
            async for chunk in self._blobs.get(self.name, 0, 1000):
                content += chunk
        except BlobMissing:
            return None
        except BlobTruncated as error:
            raise StorageUnavailable(f"the blob {self.name} is damaged: {error}") from error
        if not _KEY.fullmatch(content):
            raise StorageUnavailable(f"the blob {self.name} is damaged: delete it, and start all replicas again")
        return bytes.fromhex(content.decode())

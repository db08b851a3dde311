"""The secret key that only the replicas of a deployment share. With it, a replica proves that a message comes from a
replica of the same deployment.

The key is stored in the blob store: a program that can read that store can read every file anyway. The first replica
that needs the key makes it. The name of its blob is derived from the location of the pointers, like that of the
deployment marker. A checksum shows whether the stored key is intact. With an altered key, replicas would refuse each
other's messages.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from contextlib import suppress

from milepost.wire import Code
from milepost_backends.contract import (
    BlobExists,
    BlobMissing,
    BlobTruncated,
    PointerStore,
    StorageFull,
    StorageUnavailable,
)
from milepost_server.basics.pieces import stream_of
from milepost_server.basics.problems import problem
from milepost_server.blobs.timeouts import BlobsWithTimeout

DIRECTORY = "doors"
"""The first segment of shared keys' names; no deployment has this id, and all other keys begin with a deployment's
id.
"""

_KEY = re.compile(rb"([0-9a-f]{64})(?:-([0-9a-f]{16}))?")
"""The stored form of the key: the key and its checksum. Keys of earlier releases have no checksum."""

log = logging.getLogger("milepost.blobs")


class _Damaged(Exception):
    """Raised if the blob for the shared key exists, but does not contain a valid key."""


class SharedKey:
    """The key that the replicas of the deployment on ``pointers`` share, stored in ``blobs``. It is read once, and then
    kept in memory.
    """

    def __init__(self, blobs: BlobsWithTimeout, pointers: PointerStore) -> None:
        self._blobs = blobs
        self._pointers = pointers
        self._known: bytes | None = None
        self.damage: str | None = None
        """What is wrong with the stored key and how to repair it, as text; None while no fault is known."""

    @property
    def is_known(self) -> bool:
        """Whether the key is in memory."""
        return self._known is not None

    @property
    def known(self) -> bytes:
        """The key, once it is in memory."""
        assert self._known is not None
        return self._known

    @property
    def name(self) -> str:
        """The name of the blob that contains the shared key."""
        return f"{DIRECTORY}/{hashlib.blake2b(self._pointers.place.encode(), digest_size=16).hexdigest()}"

    async def get(self) -> bytes:
        """Return the shared key; create it if it does not exist.

        Raises a ``corrupt`` problem if the stored key is damaged, and ``storage-unavailable`` and ``storage-full``
        problems.
        """
        if self._known is None:
            try:
                self._known = await self._read() or await self._made()
            except _Damaged as error:
                raise problem(Code.CORRUPT, str(error)) from error
            except StorageFull as error:
                raise problem(Code.STORAGE_FULL, f"the key that replicas share cannot be made: {error}") from error
            except StorageUnavailable as error:
                raise problem(
                    Code.STORAGE_UNAVAILABLE, f"the key that replicas share cannot be read: {error}"
                ) from error
        return self._known

    async def look(self) -> None:
        """Read the key if it exists and was not read before. If the stored key is damaged, describe the damage in
        ``damage``.

        Raises `StorageUnavailable`.
        """
        if self._known is None:
            with suppress(_Damaged):
                self._known = await self._read()

    async def _made(self) -> bytes:
        with suppress(BlobExists):  # if another replica stored its key at the same time, that key is used
            key = secrets.token_hex(32).encode()
            await self._blobs.put(self.name, stream_of(key + b"-" + _checksum(key)))
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
            raise self._damaged(str(error)) from error
        found = _KEY.fullmatch(content)
        if found is None:
            raise self._damaged(f"{len(content)} bytes are no key")
        if found[2] not in (None, _checksum(found[1])):
            raise self._damaged("its checksum is wrong")
        self.damage = None
        return bytes.fromhex(found[1].decode())

    def _damaged(self, how: str) -> _Damaged:
        damage = (
            f"the key that replicas share, the blob {self.name}, is damaged: {how}; no file of a job can be read or"
            " written. Delete it, and start all replicas again (docs/damage.md)"
        )
        if self.damage != damage:
            log.error("%s", damage)
        self.damage = damage
        return _Damaged(damage)


def _checksum(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=8).hexdigest().encode()

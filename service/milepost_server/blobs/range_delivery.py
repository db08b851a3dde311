"""Delivers the bytes of a file from any position on: each range is verified before any of it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Final, Generic, TypeVar

from milepost.wire import Code
from milepost_backends.contract import BlobMissing, BlobStore, BlobTruncated, StorageUnavailable, UnsafeKey
from milepost_server.basics.problems import problem
from milepost_server.basics.waiting import seen, within
from milepost_server.blobs.delivery import (
    MISMATCH,
    begun,
    cut_where_it_fails,
    deliver,
    deliver_rest,
    errors_as_problems,
)
from milepost_server.blobs.keys import list_of
from milepost_server.blobs.range_digests import LISTED_ABOVE_BYTES, RangeDigests, opened
from milepost_server.model.requests.base import BlobRef

log = logging.getLogger("milepost.blobs")

STEADY_BYTES: Final = 4 * 1024 * 1024
"""The bytes that a reader without a stated end gets range by range. After these, each portion is as large as all
earlier ones together. So at most as many bytes as the reader has taken are read in vain if it stops.
"""

REMEMBERED_BYTES: Final = 32 * 1024 * 1024
"""The bytes of sent ranges that are kept in memory. Hadoop's client often closes its connection after some hundred KiB,
and then asks for the next bytes, most of which the server had already sent.
"""

_LISTS_BYTES: Final = 4 * 1024 * 1024
_LIST_SECONDS: Final = 5.0
"""The seconds that reading a list of digests may take. After that, the file is delivered without the list, since a
reader waits and the file itself may be intact.
"""

_KEPT_BESIDES: Final = 320
"""The bytes of memory that a kept list needs in addition to its digests."""

K = TypeVar("K")
V = TypeVar("V")


class RangeDelivery:
    """Delivers files from ``blobs``. The lists of digests and the ranges that were read last are kept in memory, which
    is safe because a blob never changes.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._lists: _Newest[str, RangeDigests] = _Newest(_LISTS_BYTES, lambda kept: len(kept.digests) + _KEPT_BESIDES)
        self._ranges: _Newest[tuple[str, int], bytes] = _Newest(REMEMBERED_BYTES, len)
        self._reading: dict[tuple[str, int], asyncio.Future[bytes]] = {}
        self._opening: dict[str, asyncio.Future[RangeDigests | None]] = {}

    async def deliver(self, ref: BlobRef, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Return the bytes ``[start, end)`` of a file as a stream. ``end`` is None for the end of the file, and if the
        reader may stop before that.

        Of a file with a list of digests, only the needed ranges are read, and each byte is verified before it is sent.
        Of a file above 1 MiB without a list, bytes up to the end of the file are verified by reading the file from its
        beginning; a part that ends earlier is not verified.

        Raises the problems of `milepost_server.blobs.delivery.deliver`.
        """
        stop = ref.size if end is None else end
        digests = await self._digests(ref) if start < stop else None
        if digests is None:
            if stop == ref.size:
                return await deliver_rest(self._blobs, ref, start)
            return await deliver(self._blobs, ref, start, stop)
        with errors_as_problems():
            chunks = await begun(self._proven(ref, digests, start, stop, grows=end is None and start > 0))
        return cut_where_it_fails(chunks, stop - start)

    async def _proven(
        self, ref: BlobRef, digests: RangeDigests, start: int, stop: int, *, grows: bool
    ) -> AsyncIterator[bytes]:
        size, steady = digests.range_bytes, start + STEADY_BYTES
        # keep the ranges of a small read in memory: the reader will probably request neighbouring bytes next
        small = stop - start <= size < ref.size
        number, last = start // size, min(ref.size, -(-stop // size) * size)
        while (position := number * size) < last:
            if small or (grows and position < steady):
                yield _within(await self._shared_range(ref, digests, number), position, start, stop)
                number += 1
                continue
            to = min(last, position + -(-(position - start) // size) * size) if grows else last
            async for data in self._read_ranges(ref, digests, number, to):
                yield _within(data, number * size, start, stop)
                number += 1

    async def _shared_range(self, ref: BlobRef, digests: RangeDigests, number: int) -> bytes:
        """Return range number ``number`` of a file, from memory or by reading it.

        Readers that want the same range at the same time share one read. The read continues even if its readers go
        away, since it is short, and the next request probably wants the same range.
        """
        key = ref.key, number
        if (data := self._ranges.get(key)) is not None:
            return data
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.ensure_future(self._read_range(ref, digests, number))
            reading.add_done_callback(seen)
        return await asyncio.shield(reading)

    async def _read_range(self, ref: BlobRef, digests: RangeDigests, number: int) -> bytes:
        to = min(ref.size, (number + 1) * digests.range_bytes)
        try:
            data = b"".join([data async for data in self._read_ranges(ref, digests, number, to)])
            self._ranges.put((ref.key, number), data)
            return data
        finally:
            del self._reading[ref.key, number]

    async def _read_ranges(self, ref: BlobRef, digests: RangeDigests, number: int, to: int) -> AsyncIterator[bytes]:
        """Yield whole ranges, each once it is verified, from range ``number`` up to the byte position ``to``."""
        held, position = bytearray(), number * digests.range_bytes
        async for chunk in self._blobs.get(ref.key, position, to, size=ref.size):
            held += chunk
            while position < to and len(held) >= (length := min(digests.range_bytes, to - position)):
                data = bytes(memoryview(held)[:length])
                del held[:length]
                if not digests.proves(number, data):
                    raise problem(Code.CORRUPT, MISMATCH)
                yield data
                position += length
                number += 1
        if position < to:
            raise BlobTruncated(f"the blob {ref.key} ended while being read up to {to}")

    async def _digests(self, ref: BlobRef) -> RangeDigests | None:
        """Return the digests of a file's ranges; None if the file has no list of them, or if the list is damaged or
        cannot be read.
        """
        key = list_of(ref.key)
        if key is None or ref.size <= LISTED_ABOVE_BYTES:
            return None
        if (known := self._lists.get(key)) is not None:
            return known
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.ensure_future(self._open(key, ref))
            opening.add_done_callback(seen)
        return await asyncio.shield(opening)

    async def _open(self, key: str, ref: BlobRef) -> RangeDigests | None:
        try:
            content = await within(_LIST_SECONDS, self._read(key, _most_listed(ref.size)))
            known = opened(content, ref.size, ref.sha256)
        except (BlobMissing, UnsafeKey):
            return None
        except (StorageUnavailable, TimeoutError, BlobTruncated, ValueError) as error:
            log.warning(
                "the list of digests %s is damaged, or cannot be read: %s; its file is read from the beginning instead",
                key,
                error,
            )
            return None
        finally:
            del self._opening[key]
        self._lists.put(key, known)
        return known

    async def _read(self, key: str, most: int) -> bytes:
        content = bytearray()
        async for chunk in self._blobs.get(key):
            content += chunk
            if len(content) > most:
                raise ValueError("it is longer than that of its file can be")
        return bytes(content)


def _most_listed(size: int) -> int:
    """Return an upper bound for the bytes of a list of digests, for a file of ``size`` bytes in ranges of 32 KiB or
    more.
    """
    return 4096 + size // 1024


def _within(data: bytes, position: int, start: int, stop: int) -> bytes:
    """Return the bytes of a range that are between ``start`` and ``stop`` of the file; the range begins at
    ``position``.
    """
    return data[max(0, start - position) : stop - position]


class _Newest(Generic[K, V]):
    """A cache of the most recently used values, up to a total of ``most_bytes``; ``size_of`` returns the bytes of a
    value.
    """

    def __init__(self, most_bytes: int, size_of: Callable[[V], int]) -> None:
        self._most_bytes = most_bytes
        self._size_of = size_of
        self._values: OrderedDict[K, V] = OrderedDict()
        self._bytes = 0

    def get(self, key: K) -> V | None:
        if (value := self._values.get(key)) is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        if key in self._values or self._size_of(value) > self._most_bytes:
            return
        self._values[key] = value
        self._bytes += self._size_of(value)
        while self._bytes > self._most_bytes:
            self._bytes -= self._size_of(self._values.popitem(last=False)[1])

"""Learn the sizes of many blobs: from a listing, which tells a thousand with one request, as far as that can be had."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BlobStore, StorageUnavailable, UnsafeKey
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.problems import problem
from milepost_server.basics.timeouts import within
from milepost_server.blobs.delivery import stored_size
from milepost_server.blobs.keys import prefix_of_store

log = logging.getLogger("milepost.blobs")

_LISTED_FROM: Final = 8
"""Fewer blobs of a store are asked for one by one."""

_LISTED_FOR_EACH: Final = 50
"""A listing that has more blobs than this for each that is wanted takes longer than to ask for those."""

_LISTING_SECONDS: Final = 30.0


class Sizes:
    """The sizes of blobs, each learnt once.

    A blob that a listing does not have may have come meanwhile: such ones are asked for.
    """

    def __init__(self, blobs: BlobStore, loop_time: LoopTimeBudget) -> None:
        self._blobs = blobs
        self._loop_time = loop_time
        self._known: dict[str, int | Problem] = {}

    async def learn(self, keys: Iterable[str]) -> None:
        """Learn these sizes as far as they can be listed within half a minute."""
        wanted: dict[str, set[str]] = defaultdict(set)

        def want(key: str) -> None:
            if (prefix := prefix_of_store(key)) is not None:
                wanted[prefix].add(key)

        await self._loop_time.each(keys, want)
        for prefix, several in wanted.items():
            if len(several) >= _LISTED_FROM:
                try:
                    await within(_LISTING_SECONDS, self._list(prefix, several))
                except (StorageUnavailable, UnsafeKey, TimeoutError) as error:
                    log.info("the blobs below %s cannot be listed, so each is asked for: %s", prefix, error)

    async def check(self, key: str, size: int, *, at_least: bool = False) -> None:
        """Check that a blob has this size, or ``at_least`` this one.

        Raises problems: ``blob-missing``, ``corrupt``, ``storage-unavailable``.
        """
        if key not in self._known:
            try:
                self._known[key] = await stored_size(self._blobs, key)
            except Problem as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, Problem):
            raise problem(found.code, found.detail) from found
        if found < size or (found > size and not at_least):
            raise problem(Code.CORRUPT, f"{found} bytes are stored, but the record says {size}")

    async def _list(self, prefix: str, wanted: set[str]) -> None:
        rest = len(wanted) * _LISTED_FOR_EACH
        async for info in self._blobs.list(prefix, 0.0):
            if info.key in wanted:
                self._known[info.key] = info.size
            rest -= 1
            if not rest:
                return

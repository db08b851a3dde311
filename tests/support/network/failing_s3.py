"""An S3 server of which a drawn share of the writes fails, in every way that S3 itself fails now and then.

A gateway in a thread of its own stands in front of the real server: a test of whole systems has no event loop.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

from tests.support.network.gateway import Fault, Gateway, Request
from tests.support.network.listener import listening

SHARE = 0.01
_SECONDS = 60.0
_KINDS = {
    "500": Fault(lambda _: True, answer=(500, "InternalError")),
    "503": Fault(lambda _: True, answer=(503, "SlowDown")),
    "409": Fault(lambda _: True, answer=(409, "ConditionalRequestConflict")),
    "reset": Fault(lambda _: True, drop=True),
    "lost answer": Fault(lambda _: True, lose_answer=True),
}


class FailingS3(Gateway):
    """Lets ``share`` of the writes fail, each in turn in another way; ``met`` counts how often which came."""

    def __init__(self, upstream: str, source: random.Random, share: float) -> None:
        super().__init__(upstream)
        self.met: Counter[str] = Counter()
        self.writes = 0
        self._source = source
        self._share = share
        self._kinds = cycle(source.sample(sorted(_KINDS), len(_KINDS)))

    def _fault(self, request: Request) -> Fault:
        self.requests.clear()  # nobody looks at them, and there are many
        if not _writes(request):
            return super()._fault(request)
        self.writes += 1
        if self._source.random() >= self._share:
            return super()._fault(request)
        kind = next(self._kinds)
        self.met[kind] += 1
        return _KINDS[kind]


def _writes(request: Request) -> bool:
    """Whether this puts an object or a part of one, or completes an upload."""
    return request.method == "PUT" or (request.method == "POST" and "uploadId" in request.target)


@contextmanager
def failing_s3(upstream: str, seed: int, share: float = SHARE) -> Iterator[FailingS3]:
    """Make one that listens within the block; ``seed`` decides which writes fail, and how."""
    before = FailingS3(upstream, random.Random(f"s3 {seed}"), share)
    loop, ready = asyncio.new_event_loop(), threading.Event()
    over = asyncio.Event()

    async def listen() -> None:
        async with listening(before):
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(listen(),), name="failing-s3", daemon=True)
    thread.start()
    try:
        assert ready.wait(_SECONDS)
        yield before
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(_SECONDS)
        loop.close()

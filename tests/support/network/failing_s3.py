"""An S3 server of which a drawn share of the writes fails, in every way that S3 itself fails now and then.

A gateway in a thread of its own stands in front of the real server: a test of whole systems has no event loop.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

from anyio.from_thread import start_blocking_portal

from tests.support.network.gateway import Fault, Gateway, Request
from tests.support.network.listener import listening

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
def failing_s3(upstream: str, seed: int, share: float) -> Iterator[FailingS3]:
    """Make one that listens within the block; ``seed`` decides which writes fail, and how."""
    before = FailingS3(upstream, random.Random(f"s3 {seed}"), share)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(listening(before)):
        yield before

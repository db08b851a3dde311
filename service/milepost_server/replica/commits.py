"""Commit what maintenance asks for, and leave time to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from milepost_server.journal import Journal
from milepost_server.replica.submitter import Reply, reply_of
from milepost_server.rules.requests import Request

COMMIT_SECONDS = 30.0
_MOST_REST_SECONDS = 1.0


async def commit(journal: Journal, request: Request, clock: Callable[[], float]) -> Reply:
    """Commit a request, then pause for as long as it took, which leaves half of the time to others.

    Raises problems.
    """
    began = clock()
    reply = reply_of(await journal.wait(journal.submit(request, began + COMMIT_SECONDS)))
    await asyncio.sleep(min(clock() - began, _MOST_REST_SECONDS))
    return reply

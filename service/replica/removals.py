"""Removals: the mark is committed, then the blob is discarded, then the record goes."""

from __future__ import annotations

import logging

from backends.contract import BackendError
from milepost.errors import Problem
from milepost.wire import Code
from service.basics.problems import problem
from service.blobs.deletion_queue import DeletionQueue
from service.journal import Journal
from service.rules.decisions import FinishNeeded
from service.rules.requests import LEADER, FinishRemoval

log = logging.getLogger("milepost.removals")


class Removals:
    """Finishes removals whose mark is committed."""

    def __init__(self, journal: Journal, deletions: DeletionQueue) -> None:
        self._journal = journal
        self._deletions = deletions

    async def finish(self, finish: FinishNeeded, deadline: float, code: Code = Code.DISCARD_FAILED) -> None:
        """Discard the blob, then drop the record. ``deadline`` in monotonic seconds.

        Raises a problem of ``code`` if the blob could not be discarded: for a removal that is ``discard-failed``,
        since the removal itself stands.
        """
        try:
            await self._deletions.delete(finish.blob, deadline)
        except BackendError as error:
            raise problem(code, f"the bytes could not be discarded: {error}") from error
        request = FinishRemoval(LEADER, finish.store, finish.name, finish.version)
        try:
            await self._journal.wait(self._journal.submit(request, deadline))
        except Problem as error:
            # The removal stands and its bytes are gone: the rest is upkeep's, here or at the next leader.
            log.info("the record of %s/%s will be dropped later: %s", finish.store, finish.name, error)

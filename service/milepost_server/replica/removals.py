"""Finish removals of handles: after the mark is committed, the blob is deleted, and then the record is dropped."""

from __future__ import annotations

import logging

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BackendError
from milepost_server.basics.problems import problem
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.journal import Journal
from milepost_server.rules.decisions import FinishNeeded
from milepost_server.rules.requests import LEADER, FinishRemoval

log = logging.getLogger("milepost.removals")


class Removals:
    """The last two steps of removals whose mark is committed."""

    def __init__(self, journal: Journal, deletions: DeletionQueue) -> None:
        self._journal = journal
        self._deletions = deletions

    async def finish(self, finish: FinishNeeded, deadline: float, code: Code = Code.DISCARD_FAILED) -> None:
        """Delete the blob, then drop the record. ``deadline`` is in monotonic seconds.

        Raises a problem with ``code`` if the blob could not be deleted. For a removal this is ``discard-failed``, whose
        outcome is ``applied``, since the removal itself is committed.
        """
        try:
            await self._deletions.delete(finish.blob, deadline)
        except BackendError as error:
            raise problem(code, f"the bytes could not be deleted: {error}") from error
        request = FinishRemoval(LEADER, finish.store, finish.name, finish.version)
        try:
            await self._journal.wait(self._journal.submit(request, deadline))
        except Problem as error:
            # The removal is committed and its bytes are gone: `maintenance` does the rest, here or at the next leader.
            log.info(
                "%s/%s is removed, but its record could not be dropped yet; it is tried again later: %s",
                finish.store,
                finish.name,
                error,
            )

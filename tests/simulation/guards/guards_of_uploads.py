"""The guards around uploads, each of which can be taken out as those of `tests.simulation.guards.guards`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from milepost.errors import Problem
from milepost_server.journal import Journal, Served
from milepost_server.journal.attempts import MaySubmit
from milepost_server.memory import state
from milepost_server.memory.view import View
from milepost_server.model.records import Store, Upload
from milepost_server.model.requests.base import LEADER, BlobRef, Request
from milepost_server.model.requests.handles import Add, ExpireUpload, Replace
from milepost_server.operations.uploads import Reference, UploadOperations
from milepost_server.replica import maintenance
from milepost_server.replica.leases import UploadLeases
from milepost_server.replica.submitter import Submitter
from milepost_server.rules.decisions import Accepted, Answer, DecisionContext, Refused
from milepost_server.rules.handlers import handles

Patch = pytest.MonkeyPatch


def upload_ends_with_the_commit(patch: Patch) -> None:
    """A handle takes the bytes, and the upload stays as it was."""
    real = handles.source_of

    def source_of(
        view: View, store: Store, request: Add | Replace, context: DecisionContext
    ) -> handles.UploadSource | Refused:
        source = real(view, store, request, context)
        return source if isinstance(source, Refused) else source._replace(changes={})

    patch.setattr(handles, "source_of", source_of)


def bytes_are_looked_at(patch: Patch) -> None:
    """What was announced is taken to be there."""

    async def found(self: UploadOperations, store: str, reference: Reference) -> BlobRef | None:
        upload = self._journal.read().view.upload(store, reference.upload)
        return BlobRef(upload.blob, upload.size, upload.sha256) if isinstance(upload, Upload) else None

    patch.setattr(UploadOperations, "_found", found)


def bytes_are_looked_through(patch: Patch) -> None:
    """Of what lies there the size alone is looked at."""

    real = UploadOperations._found

    async def found(self: UploadOperations, store: str, reference: Reference) -> BlobRef | None:
        there = await real(self, store, reference)
        return there and BlobRef(there.key, there.size, reference.sha256)

    patch.setattr(UploadOperations, "_found", found)


def upload_outlives_attempts(patch: Patch) -> None:
    """An attempt that failed discards the bytes, as one discards those that it put itself."""

    real = Submitter.submit_and_wait

    async def hasty(
        self: Submitter, request: Request, generation: int | None = None, may_submit: MaySubmit = lambda _: None
    ) -> Served:
        try:
            served = await real(self, request, generation, may_submit)
        except Problem:
            await _discarded(self, request)
            raise
        if isinstance(served.decision, Refused):
            await _discarded(self, request)
        return served

    patch.setattr(Submitter, "submit_and_wait", hasty)


async def _discarded(submitter: Submitter, request: Request) -> None:
    if isinstance(request, Add | Replace) and request.upload is not None and request.upload.found is not None:
        await submitter._removals._deletions.try_delete(request.upload.found.key)


def end_is_committed_first(patch: Patch) -> None:
    """When the time of an upload is up, its bytes go at once."""
    real = maintenance._expire_upload

    async def expire(
        journal: Journal, leases: UploadLeases, store: str, upload_id: str, clock: Callable[[], float]
    ) -> bool:
        upload = journal.read().view.upload(store, upload_id)
        if isinstance(upload, Upload):
            journal._pipeline._observer.committed(
                ExpireUpload(LEADER, store_name=store, upload=upload_id), Accepted(Answer(), orphans=(upload.blob,))
            )
        return await real(journal, leases, store, upload_id, clock)

    patch.setattr(maintenance, "_expire_upload", expire)


def uploads_name_their_bytes(patch: Patch) -> None:
    """The collector spares what handles point to, and nothing else."""

    patch.setattr(state, "is_pending", lambda _record: False)


def uploads_get_their_full_time_again(patch: Patch) -> None:
    """A new leader gives pending uploads no time."""

    def begin(self: UploadLeases, store: str, upload: Upload) -> None:
        self._deadlines.set((store, upload.id), self._clock())

    patch.setattr(UploadLeases, "begin", begin)

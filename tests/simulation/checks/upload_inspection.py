"""The stored records of uploads: after each group they must say what the contract says, and their bytes are let be."""

from __future__ import annotations

from collections.abc import Mapping

from milepost_server.memory.lookup import is_pending
from milepost_server.model.records import Record, upload_of
from tests.simulation.checks.chronicle import Chronicle
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.world.blobs import BlobService


class UploadInspection:
    """Which uploads are pending, by store and id, and where their bytes belong."""

    def __init__(self, chronicle: Chronicle, blobs: BlobService) -> None:
        self._chronicle = chronicle
        self._pending: dict[tuple[str, str], str] = {}
        inspected = blobs.deleted

        def deleted(blob: str) -> None:
            inspected(blob)
            self._deleted(blob)

        blobs.deleted = deleted

    def committed(self, changed: Mapping[str, Record | None]) -> None:
        """A group has been committed."""
        for key, record in changed.items():
            located = upload_of(key)
            if located is None:
                continue
            if is_pending(record):
                self._pending[located] = record.blob
            else:
                self._pending.pop(located, None)
        stores = self._chronicle.model.stores.items()
        expected = {(name, upload) for name, store in stores for upload in store.uploads}
        if self._pending.keys() != expected:
            raise Violation(Invariant.UPLOAD_ONCE, f"pending are {set(self._pending)}, should be {expected}")

    def _deleted(self, blob: str) -> None:
        for upload, named in self._pending.items():
            if named == blob:
                raise Violation(Invariant.UPLOAD_KEPT, f"{blob} was deleted while upload {upload} is pending")

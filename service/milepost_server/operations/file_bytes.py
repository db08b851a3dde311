"""Find the bytes of a file of a tree: in its record, in a blob that small files share, or in a blob of its own."""

from __future__ import annotations

from milepost_backends.contract import BlobStore
from milepost_server.blobs.delivery import read_piece
from milepost_server.rules.requests import BlobRef
from milepost_server.rules.stored.trees import Entry


def blob_ref(entry: Entry) -> BlobRef:
    """Return the reference to the bytes of a file that has a blob of its own."""
    return BlobRef(entry.blob, entry.size, entry.sha256)


async def bytes_of_small(blobs: BlobStore, entry: Entry) -> bytes:
    """Return the bytes of a file that has no blob of its own.

    Raises problems: ``blob-missing``, ``corrupt``, ``storage-unavailable``.
    """
    if entry.start is None:
        return entry.data or b""
    return await read_piece(blobs, entry.blob, entry.start, entry.size, entry.sha256)

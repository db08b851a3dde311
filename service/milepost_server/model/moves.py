"""Define the stored state of a job that is moved from one cell to another."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

LEAVING: Final = "leaving"
"""The job is here, and frozen for as long as the session of the move holds its epoch."""
MOVED: Final = "moved"
"""The tombstone of a job: it is in another cell for good, unless it is moved back."""
CLEARING: Final = "clearing"
"""The job is to arrive, once nothing is left here of an earlier stay or of an earlier copy."""
ARRIVING: Final = "arriving"
"""The job is being copied to here, and is in the other cell until that has the tombstone."""


class Move(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How far the move ``id`` of a job is, in the record of its store: ``phase``. ``cell`` is the other cell, and
    ``epoch`` the epoch of the old cell under which the job is moved.

    None of the revisions of an arriving job is above ``newest``.

    ``seal`` proves that the old cell has set the tombstone: the old cell draws it, and tells it only in the tombstone.
    An arriving job has the SHA-256 of it. It is ``complete`` once the mover has compared the copy with the old cell.
    """

    phase: str
    id: str
    cell: str
    epoch: int
    newest: int = 0
    seal: str = ""
    complete: bool = False


def sealed(seal: str) -> str:
    """Return what the new cell keeps of a seal, to recognize it."""
    return hashlib.sha256(seal.encode()).hexdigest()

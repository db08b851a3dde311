"""The limit on the size of a journal, and which requests may still use the last of its room.

Removing, releasing and ending must be possible when nothing else is, or room could never be made again. A client also
needs a session, and often an epoch, before it can remove anything. So the last parts of the room are kept for these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from milepost.wire import Code
from milepost_server.rules.decisions import Refused
from milepost_server.rules.memory.view import View
from milepost_server.rules.records import Corrupt, encode
from milepost_server.rules.requests import (
    Add,
    Campaign,
    CloneTree,
    CreateUpload,
    LockAll,
    LockHandle,
    MakeDirectory,
    MakeSavepoint,
    OpenSession,
    PutFile,
    RenamePath,
    Replace,
    Request,
)

GROWING: Final = (Add, Replace, CreateUpload, PutFile, MakeDirectory, RenamePath, CloneTree, MakeSavepoint)
"""The requests that make the journal larger for good, and that nobody needs to make room in it."""

_PARTS: Final = 32
_KEPT: Final[dict[type[Request], int]] = {
    **dict.fromkeys(GROWING, 2),
    OpenSession: 1,
    Campaign: 1,
    LockHandle: 1,
    LockAll: 1,
}
"""How many of the `_PARTS` parts of the room each kind of request must leave free when it makes the journal larger.

A kind that is not listed may use all of the room.
"""
_MIB: Final = 1024 * 1024


class SizeLimit:
    """The limit of ``most`` bytes on a journal; None sets no limit.

    ``taken`` is the size in bytes of all records, including the groups in flight.
    """

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.taken = 0

    def growth(self, view: View, encoded: Mapping[str, bytes | None]) -> int:
        """Return by how many bytes the ``encoded`` records make the journal larger; 0 where there is no limit."""
        if self.most is None:
            return 0
        before = sum(_size(key, view) for key in encoded)
        return sum(len(key) + len(value) for key, value in encoded.items() if value is not None) - before

    def refusal(self, request: Request, growth: int, waiting: int) -> Refused | None:
        """Return the refusal of a request that may not make the journal ``growth`` bytes larger; None if it may.

        ``waiting`` is by how many bytes the requests before it in the same group make the journal larger.
        """
        if self.most is None or growth <= 0:
            return None
        kept = self.most * _KEPT.get(type(request), 0) // _PARTS
        taken = self.taken + waiting
        if not kept or taken + growth <= self.most - kept:
            return None
        return Refused(
            Code.STORAGE_FULL,
            f"the records take {taken / _MIB:.1f} of {self.most / _MIB:.1f} MiB, and the rest is reserved for removals:"
            " remove handles or files that are not needed, or give the pointer store more room",
        )


def _size(key: str, view: View) -> int:
    record = view.get(key)
    if record is None or isinstance(record, Corrupt):
        return 0
    return len(key) + len(encode(key, record))

"""How much the records of a journal may take where its store bounds that, and which requests have what is left.

Whoever removes, releases or ends something must be able to when nothing else is possible any more, or room could never
be made; and it takes a session and often an epoch to get there. So the last parts are kept for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from milepost.wire import Code
from service.rules.decisions import Refused
from service.rules.memory.view import View
from service.rules.records import Corrupt, encode
from service.rules.requests import (
    Add,
    Campaign,
    CreateUpload,
    LockAll,
    LockHandle,
    OpenSession,
    Replace,
    Request,
)

_PARTS: Final = 32
_KEPT: Final[dict[type[Request], int]] = {
    Add: 2,
    Replace: 2,
    CreateUpload: 2,
    OpenSession: 1,
    Campaign: 1,
    LockHandle: 1,
    LockAll: 1,
}
"""How many parts of all the room are kept from a request that makes the journal larger; none from any other kind."""
_MIB: Final = 1024 * 1024


class Bound:
    """``most`` bytes, or as many as one likes where it is None; ``taken``: by all records, with groups in flight."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.taken = 0

    def growth(self, view: View, encoded: Mapping[str, bytes | None]) -> int:
        """By how many bytes these make the journal larger; 0 where that does not matter."""
        if self.most is None:
            return 0
        before = sum(_size(key, view) for key in encoded)
        return sum(len(key) + len(value) for key, value in encoded.items() if value is not None) - before

    def refusal(self, request: Request, growth: int, waiting: int) -> Refused | None:
        """Why the request may not make the journal larger by that, beside the ``waiting`` bytes of its group."""
        if self.most is None or growth <= 0:
            return None
        kept = self.most * _KEPT.get(type(request), 0) // _PARTS
        taken = self.taken + waiting
        if not kept or taken + growth <= self.most - kept:
            return None
        return Refused(
            Code.STORAGE_FULL,
            f"the records take {taken / _MIB:.1f} of {self.most / _MIB:.1f} MiB, and what is left is kept for removals:"
            " remove what is not needed, or give the pointers more",
        )


def _size(key: str, view: View) -> int:
    record = view.get(key)
    if record is None or isinstance(record, Corrupt):
        return 0
    return len(key) + len(encode(key, record))

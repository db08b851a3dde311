"""Define the common parts of all stored records: a schema number, and the answers that a record keeps for retries."""

from __future__ import annotations

from typing import Any, Final

import msgspec

SCHEMA: Final = 1
WITH_DATA: Final = 2
"""The schema number of a handle's record that contains the bytes of its state, which older releases cannot read.

To an older release, such a record is damaged, and reported by name. Without this number, the release would read the
state as an empty one.
"""
WITH_MOVE: Final = 3
"""The schema number of a store's record that has a move, for the same reason: an older release would grant an epoch of
a job that is in another cell.
"""

STORED_AS: Final = {
    "created_revision": "born",
    "deleted_revision": "died",
    "evicted_answers_at": "pushed",
    "epoch_session_created": "epoch_born",
    "compacting": "folding",
    "range_tombstones": "sweeps",
    "snapshots": "cuts",
    "savepoints": "pins",
}
"""The members of stored records that keep an older name than the one in the code, so that older records can be read."""


def schema() -> int:
    """Return the schema number of the stored records, as a default factory. A factory is needed since msgspec omits
    plain defaults from stored records, and a later release would then read its own number in place of the omitted one.
    """
    return SCHEMA


class Answered(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The first answer under an idempotency key, kept in the record that its request changed."""

    session: str
    key: str
    fingerprint: str
    revision: int
    answer: dict[str, Any]

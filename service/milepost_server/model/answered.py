"""Define what every stored record has: a schema number, and the answers that it keeps for retries."""

from __future__ import annotations

from typing import Any, Final

import msgspec

SCHEMA: Final = 1
WITH_DATA: Final = 2
"""The schema number of a handle's record that has the bytes of its state in it, which older releases cannot read.

To them such a record is damaged, by name; without the number they would take the state for an empty one.
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
"""The members of stored records whose names are older than those in the code: what was stored before is read."""


def schema() -> int:
    """Return the schema number: msgspec would leave an ordinary default out of what is stored, and read a later one."""
    return SCHEMA


class Answered(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """This is the first answer to an idempotency key, kept with the record that it changed."""

    session: str
    key: str
    fingerprint: str
    revision: int
    answer: dict[str, Any]

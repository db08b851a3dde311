"""Encode, decode and order the entries of an election: ephemeral, sequential znodes, of which the first leads.

An entry is named ``<candidacy>-<sequence>`` and holds ``{"schema": 1, "advertise": …, "check": …}``, with a checksum
over the URL, so that no client is sent to a URL that was altered. A znode with another name is not an entry.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_SCHEMA: Final = 1
_ENTRY: Final = re.compile(r"([0-9a-f]{32})-(\d{10})\Z")


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """An entry is one candidate's place in the queue."""

    sequence: int
    candidacy: str

    @property
    def name(self) -> str:
        """Return the name of the znode."""
        return f"{self.candidacy}-{self.sequence:010d}"


def election_of(root: str) -> str:
    """Return the path that all entries lie under."""
    return f"{root}/election"


def in_order(names: Iterable[str]) -> list[Entry]:
    """Return the entries among the children, in the order in which they came."""
    found = (_ENTRY.match(name) for name in names)
    return sorted(Entry(int(entry[2]), entry[1]) for entry in found if entry is not None)


def encode(advertise: str) -> bytes:
    """Return the exact bytes of an entry."""
    check = hashlib.blake2b(advertise.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
    return json.dumps({"schema": _SCHEMA, "advertise": advertise, "check": check}).encode()


def advertised_in(data: bytes) -> str | None:
    """Return the advertised URL in an entry; None if the entry was altered, or is not of this release's making."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match content:
        case {"advertise": str(advertise)} if encode(advertise) == data:
            return advertise
        case _:
            return None

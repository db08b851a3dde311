"""Entries of an election: ephemeral, sequential znodes; the first of them leads.

An entry is named ``<candidacy>-<sequence>`` and holds ``{"schema": 1, "advertise": …, "check": …}``, with a checksum
over the URL: nobody is sent to one that was altered. What does not look like that is not ours, and does not count.
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
    """One candidate's place in the queue."""

    sequence: int
    candidacy: str

    @property
    def name(self) -> str:
        """Of the znode."""
        return f"{self.candidacy}-{self.sequence:010d}"


def election_of(root: str) -> str:
    """What all entries lie under."""
    return f"{root}/election"


def in_order(names: Iterable[str]) -> list[Entry]:
    """The entries among the children, first come first."""
    found = (_ENTRY.match(name) for name in names)
    return sorted(Entry(int(entry[2]), entry[1]) for entry in found if entry is not None)


def encode(advertise: str) -> bytes:
    """What stands in an entry, to the byte."""
    check = hashlib.blake2b(advertise.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
    return json.dumps({"schema": _SCHEMA, "advertise": advertise, "check": check}).encode()


def advertised_in(data: bytes) -> str | None:
    """The advertised URL in an entry; None in one that was altered, or is not of this release's making."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match content:
        case {"advertise": str(advertise)} if encode(advertise) == data:
            return advertise
        case _:
            return None

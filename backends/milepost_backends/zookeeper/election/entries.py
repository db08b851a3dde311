"""Encode, decode and order the entries of an election: ephemeral, sequential znodes, of which the first leads.

An entry is named ``<candidacy>-<sequence>``. The candidacy is a random id which the candidate chooses, so that it finds
its entry even if the answer to the creation was lost; ZooKeeper appends the sequence number. The entry holds
``{"schema": 1, "advertise": …, "check": …}``: the URL at which clients reach the candidate, and a checksum over that
URL, so that no client is sent to a URL that was altered. A znode with another name is not an entry.
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
    """An entry is one candidate's place in the queue. The lower sequence number sorts first."""

    sequence: int
    candidacy: str

    @property
    def name(self) -> str:
        """Return the name of the znode."""
        return f"{self.candidacy}-{self.sequence:010d}"


def election_of(root: str) -> str:
    """Return the path of the znode under which all entries lie; ``root`` is the path of the deployment."""
    return f"{root}/election"


def in_order(names: Iterable[str]) -> list[Entry]:
    """Return the entries among the ``names`` of znodes, in the order in which they were made: the first leads."""
    found = (_ENTRY.match(name) for name in names)
    return sorted(Entry(int(entry[2]), entry[1]) for entry in found if entry is not None)


def encode(advertise: str) -> bytes:
    """Return the bytes that an entry holds. They follow from the URL alone, so `advertised_in` can compare them."""
    check = hashlib.blake2b(advertise.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
    return json.dumps({"schema": _SCHEMA, "advertise": advertise, "check": check}).encode()


def advertised_in(data: bytes) -> str | None:
    """Return the advertised URL in an entry; None unless it holds exactly the bytes that `encode` makes of that URL.

    So it is None if somebody altered the entry, and also if a release with another schema wrote it.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match content:
        case {"advertise": str(advertise)} if encode(advertise) == data:
            return advertise
        case _:
            return None

"""The names of the files of a store.

The 32 digits at the end of a name are the first half of the SHA-256 of the file's head. The head contains the digest of
everything else in the file, and a random number. So a name proves the content of its file, no two commits have the same
name, and a process that creates a file twice creates the same file.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum

ID_DIGITS = 32


class Kind(Enum):
    """The kind of a file, which is the extension of its name."""

    DELTA = "delta"
    RUN = "run"
    SNAPSHOT = "snapshot"
    PIN = "pin"


_NAME = re.compile(
    rf"(?P<version>[1-9][0-9]{{0,18}})_(?P<id>[0-9a-f]{{{ID_DIGITS}}})"
    rf"(?:|_(?P<digest>[0-9a-f]{{{ID_DIGITS}}})|_(?P<pin>[A-Za-z0-9-]{{1,100}}))\.(?P<kind>delta|run|snapshot|pin)\Z"
)
_PIN_NAME = re.compile(r"[A-Za-z0-9-]{1,100}\Z")


@dataclass(frozen=True, slots=True)
class StateFileName:
    """The parts of a file's name.

    ``id`` is the commit's own (delta), that of the commit whose state the file has (snapshot, pin), or the file's
    (run). ``extra`` is a snapshot's digest or the name of a pin.
    """

    kind: Kind
    version: int
    id: str
    extra: str = ""

    def __str__(self) -> str:
        return f"{self.version}_{self.id}{'_' if self.extra else ''}{self.extra}.{self.kind.value}"

    @property
    def digest(self) -> str:
        """The digits that verify the file's head."""
        return self.extra if self.kind is Kind.SNAPSHOT else self.id


def parse_name(name: str) -> StateFileName | None:
    """Split a name into its parts; None if it is not the name of a state file."""
    match = _NAME.match(name)
    if match is None:
        return None
    kind = Kind(match["kind"])
    digest, pin = match["digest"], match["pin"]
    if kind is Kind.PIN:  # the name of a pin may look like a digest
        extra = digest or pin
        return StateFileName(kind, int(match["version"]), match["id"], extra) if extra else None
    if pin is not None or (digest is not None) != (kind is Kind.SNAPSHOT):
        return None
    return StateFileName(kind, int(match["version"]), match["id"], digest or "")


def is_pin_name(name: str) -> bool:
    """Return whether a pin may have this name."""
    return _PIN_NAME.match(name) is not None


def digest_of_head(head: bytes) -> str:
    """Return the digits in the name of a file that begins with this head."""
    return hashlib.sha256(head).hexdigest()[:ID_DIGITS]

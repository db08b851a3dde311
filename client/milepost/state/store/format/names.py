"""What the files of a store are called.

The 32 digits at the end of a name are the first half of the SHA-256 of the file's head. The head has the digest of
everything else in the file, and a random number. So a name proves what the file holds, no two commits have the same
name, and whoever creates a file twice creates the same file.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum

ID_DIGITS = 32


class Kind(Enum):
    """What a file is for; the end of its name."""

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
    """The name of a file, taken apart.

    ``id`` is the commit's own (delta), that of the commit whose state it is (snapshot, pin), or the file's (run).
    ``extra`` is a snapshot's digest or the name of a pin.
    """

    kind: Kind
    version: int
    id: str
    extra: str = ""

    def __str__(self) -> str:
        return f"{self.version}_{self.id}{'_' if self.extra else ''}{self.extra}.{self.kind.value}"

    @property
    def digest(self) -> str:
        """The digits that prove the file's head."""
        return self.extra if self.kind is Kind.SNAPSHOT else self.id


def parse_name(name: str) -> StateFileName | None:
    """Take a name apart; None if it is no name of a state file."""
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
    """Say whether a pin may be called this."""
    return _PIN_NAME.match(name) is not None


def digest_of_head(head: bytes) -> str:
    """Return the digits in the name of the file that begins with this head."""
    return hashlib.sha256(head).hexdigest()[:ID_DIGITS]

"""The names of the files of a state store.

The 32 digits at the end of a name are the first half of the SHA-256 of the file's header. The header contains the
digests of the file's record batches, and a random number. So the name verifies the content of its file, two different
commits never have the same name, and a process that repeats the creation of a file creates the same file.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum

ID_DIGITS = 32


class Kind(Enum):
    """The kind of a state store's file, which is the extension of its name."""

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
    """The parts of the name of a state store's file.

    In the name of a commit's file (kind DELTA), ``id`` is the id of the commit. In the name of a snapshot or a pin,
    ``id`` is the id of the commit whose state the file contains or keeps. In the name of a run, ``id`` is the digest of
    the file. ``extra`` is the digest of a snapshot or the name of a pin, else "".
    """

    kind: Kind
    version: int
    id: str
    extra: str = ""

    def __str__(self) -> str:
        return f"{self.version}_{self.id}{'_' if self.extra else ''}{self.extra}.{self.kind.value}"

    @property
    def digest(self) -> str:
        """The hex digits in the name that verify the file's header."""
        return self.extra if self.kind is Kind.SNAPSHOT else self.id


def parse_name(name: str) -> StateFileName | None:
    """Split the name of a file into its parts; None if it is not the name of a state store's file."""
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
    """Return whether ``name`` is a valid name of a pin: 1 to 100 letters, digits and ``-``."""
    return _PIN_NAME.match(name) is not None


def digest_of_head(head: bytes) -> str:
    """Return the 32 hex digits that the name of a file with this header must contain."""
    return hashlib.sha256(head).hexdigest()[:ID_DIGITS]

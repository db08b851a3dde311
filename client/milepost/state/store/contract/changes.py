"""What changed between two versions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ChangeKind(Enum):
    """What was done to a key (``RecordType``)."""

    PUT = "put"
    REMOVE = "remove"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit did to one key.

    ``values`` has the value that was put; of a family with several values for each key, all that were put or appended.
    """

    version: int
    family: str
    kind: ChangeKind
    key: bytes
    values: tuple[bytes, ...]

"""What is found damaged, and what may be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

WHAT_TO_DO: Final = "docs/damage.md#what-to-do"
FILES: Final = "docs/damage.md#a-jobs-files"


class Kind(str, Enum):
    """What is damaged."""

    SERVICE = "service"
    STORE = "record of a store"
    RECORD = "record of a handle"
    STATE = "state of a handle"
    TREE = "record of files"
    FILES = "files of now"
    KEPT = "files of before"


class Repair(str, Enum):
    """What ``--repair`` does."""

    REMOVE = "remove the handle"
    ROLL_BACK = "roll the files back"


@dataclass(frozen=True)
class Finding:
    """One damage. ``repair`` is None where only its owner can do something: ``see`` says what.

    ``revision`` is that of the newest snapshot or savepoint that is whole, for files.
    """

    store: str
    kind: Kind
    name: str
    reason: str
    repair: Repair | None = None
    see: str = WHAT_TO_DO
    revision: int | None = None

    @property
    def step(self) -> str:
        """What the repair does, in a sentence for whoever has to agree to it."""
        if self.repair is Repair.REMOVE:
            return (
                f"remove the handle {self.name} of store {self.store}, whose record cannot be read: it can be put back "
                "no more then, and its bytes are deleted in time"
            )
        return (
            f"roll the files of {self.store} back to revision {self.revision}, the newest snapshot or savepoint that is"
            " whole: what came later is gone, and its batches are run again"
        )


@dataclass
class Looked:
    """How much was looked at."""

    stores: int = 0
    handles: int = 0
    files: int = 0

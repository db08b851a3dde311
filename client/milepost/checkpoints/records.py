"""The records that describe checkpoints, and the names of the handles that store checkpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from milepost.types import Handle

SAVEPOINT_LABEL = "milepost-savepoint"
_NAME = re.compile(r"checkpoint-(\d{1,19})\Z", re.ASCII)


@dataclass(frozen=True)
class Checkpoint:
    """A completed checkpoint.

    A ``savepoint`` was requested by a user; other checkpoints are taken while the job runs.
    """

    number: int
    savepoint: bool
    handle: Handle


@dataclass(frozen=True)
class Skipped:
    """A checkpoint that recovery could not use, and the reason."""

    number: int
    reason: str


@dataclass(frozen=True)
class Recovery:
    """The result of a recovery: ``latest``, the newest intact checkpoint, and its ``state``.

    If the job starts without a checkpoint, ``latest`` is None, and ``state`` is empty. ``checkpoints`` are all
    checkpoints that the registry now holds, in numeric order; only the state of ``latest`` was read. ``skipped`` are
    the damaged ones, newest first: if any of them is newer than ``latest``, the job repeats work.
    """

    latest: Checkpoint | None
    state: bytes
    checkpoints: list[Checkpoint]
    skipped: list[Skipped]


def name_of(number: int) -> str:
    """Return the name of a checkpoint's handle.

    Numbers have leading zeros, so that listings, which are in the order of names, are in the order of numbers.
    """
    if not 0 <= number < 10**19:
        raise ValueError(f"the number of a checkpoint must be 0 or more and have at most 19 digits, not {number}")
    return f"checkpoint-{number:019d}"


def number_of(name: str) -> int | None:
    """Return the number in a handle's name, with or without leading zeros; None if the name is not a checkpoint's."""
    match = _NAME.match(name)
    return int(match[1]) if match else None


def checkpoint_of(handle: Handle) -> Checkpoint | None:
    """Return the checkpoint that ``handle`` stores; None if its name is not a checkpoint's."""
    number = number_of(handle.name)
    return None if number is None else Checkpoint(number, handle.labels.get(SAVEPOINT_LABEL) == "true", handle)

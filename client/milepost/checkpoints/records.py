"""Checkpoints as records, and how they are named in a store."""

from __future__ import annotations

import re
from dataclasses import dataclass

from milepost.types import Handle

SAVEPOINT_LABEL = "milepost-savepoint"
_NAME = re.compile(r"checkpoint-(\d{1,19})\Z", re.ASCII)


@dataclass(frozen=True)
class Checkpoint:
    """A completed checkpoint. A ``savepoint`` was asked for by a user rather than taken in the course of the job."""

    number: int
    savepoint: bool
    handle: Handle


@dataclass(frozen=True)
class Skipped:
    """A checkpoint that recovery could not use, and why."""

    number: int
    reason: str


@dataclass(frozen=True)
class Recovery:
    """What a job may go on from: the newest intact checkpoint and its state, or None and no bytes for a fresh start.

    ``checkpoints`` are all that the registry now holds, in numeric order; of these only the state of ``latest`` was
    read. ``skipped`` are damaged ones, newest first: where there are any newer than ``latest``, work is done again.
    """

    latest: Checkpoint | None
    state: bytes
    checkpoints: list[Checkpoint]
    skipped: list[Skipped]


def name_of(number: int) -> str:
    """The handle's name of a checkpoint, as wide as the largest number so that listings are in order, too."""
    if not 0 <= number < 10**19:
        raise ValueError(f"a checkpoint's number is 0 or more and has at most 19 digits, not {number}")
    return f"checkpoint-{number:019d}"


def number_of(name: str) -> int | None:
    """The number in a handle's name, padded or not; None for a handle that is no checkpoint."""
    match = _NAME.match(name)
    return int(match[1]) if match else None


def checkpoint_of(handle: Handle) -> Checkpoint | None:
    """The checkpoint that a handle is, if it is one."""
    number = number_of(handle.name)
    return None if number is None else Checkpoint(number, handle.labels.get(SAVEPOINT_LABEL) == "true", handle)

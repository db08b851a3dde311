"""The state that the variables of one run share: the store, the current key, and the time of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from milepost.state.coders.framing import write_escaped
from milepost.state.errors import InvalidUse
from milepost.state.key_groups import GROUP_BYTES, KeyGroups
from milepost.state.store.contract.stores import StateStore

MILLISECOND_BYTES = 8
_OFFSET = 1 << 63


class TimeMode(Enum):
    """The time by which timers fire, as in Spark's ``timeMode``. State expires in processing time only."""

    NONE = "none"
    PROCESSING = "processingtime"
    EVENT = "eventtime"

    @classmethod
    def of(cls, text: str) -> TimeMode:
        """Return the mode for Spark's text, in any case."""
        for mode in cls:
            if mode.value == text.lower():
                return mode
        raise InvalidUse(f"the time mode is None, ProcessingTime or EventTime, not {text!r}")


@dataclass(frozen=True)
class BatchTimes:
    """The times of a batch in milliseconds since 1970: when it began, and its watermark.

    All tasks and attempts of a batch have the same times, so that they produce the same state.
    """

    processing: int = -1
    watermark: int = -1

    def now(self, mode: TimeMode) -> int | None:
        """Return the time by which timers fire, None if the mode has no timers."""
        return {TimeMode.NONE: None, TimeMode.PROCESSING: self.processing, TimeMode.EVENT: self.watermark}[mode]


class Current:
    """The store of a task, and the key for which the processor is called."""

    def __init__(self, store: StateStore, groups: KeyGroups, mode: TimeMode, times: BatchTimes) -> None:
        self.store = store
        self.mode = mode
        self.times = times
        self._groups = groups
        self._group: bytes | None = None
        self._key = b""
        self._whole = b""

    def set(self, key: bytes) -> None:
        """Make this encoded key the current one."""
        self._group = self._groups.group(key).to_bytes(GROUP_BYTES, "big")
        self._key = key
        self._whole = self._group + key

    def unset(self) -> None:
        """Clear the current key."""
        self._group = None

    @property
    def whole(self) -> bytes:
        """The group and the key, as the store keeps them (`milepost.state.key_groups.with_group`)."""
        if self._group is None:
            raise InvalidUse("state and timers belong to a key, so they can be used only while a key is handled")
        return self._whole

    @property
    def entries(self) -> bytes:
        """The bytes with which the keys of all entries of the current key begin
        (`milepost.state.key_groups.entries_of`).
        """
        return self.whole[:GROUP_BYTES] + write_escaped(self._key)

    def timed(self, milliseconds: int, rest: bytes) -> bytes:
        """Return a key that sorts by time within the group of the current key, and ends with ``rest``."""
        return self.whole[:GROUP_BYTES] + encode_time(milliseconds) + rest


def encode_time(milliseconds: int) -> bytes:
    """Return a time as bytes that sort as times do."""
    return (milliseconds + _OFFSET).to_bytes(MILLISECOND_BYTES, "big")


def decode_time(data: bytes) -> int:
    """Return the time with which the bytes begin."""
    return int.from_bytes(data[:MILLISECOND_BYTES], "big") - _OFFSET

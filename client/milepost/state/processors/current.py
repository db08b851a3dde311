"""What the state variables of one run share: the store, the current key, and what time it is in the batch."""

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
    """By which time timers fire, as Spark's ``timeMode`` says it. State expires in processing time only."""

    NONE = "none"
    PROCESSING = "processingtime"
    EVENT = "eventtime"

    @classmethod
    def of(cls, text: str) -> TimeMode:
        """Return the mode of Spark's text, whatever case it is in."""
        for mode in cls:
            if mode.value == text.lower():
                return mode
        raise InvalidUse(f"the time mode is None, ProcessingTime or EventTime, not {text!r}")


@dataclass(frozen=True)
class BatchTimes:
    """The times of a batch in milliseconds since 1970: when it began, and the watermark that it has.

    All tasks and attempts of a batch have the same, so that they come to the same state.
    """

    processing: int = -1
    watermark: int = -1

    def now(self, mode: TimeMode) -> int | None:
        """Return the time by which timers fire, None where there are none."""
        return {TimeMode.NONE: None, TimeMode.PROCESSING: self.processing, TimeMode.EVENT: self.watermark}[mode]


class Current:
    """The store of a task, and the key that the processor is called for."""

    def __init__(self, store: StateStore, groups: KeyGroups, mode: TimeMode, times: BatchTimes) -> None:
        self.store = store
        self.mode = mode
        self.times = times
        self._groups = groups
        self._group: bytes | None = None
        self._key = b""
        self._whole = b""

    def set(self, key: bytes) -> None:
        """Let what follows be about this encoded key."""
        self._group = self._groups.group(key).to_bytes(GROUP_BYTES, "big")
        self._key = key
        self._whole = self._group + key

    def unset(self) -> None:
        """Let what follows be about no key."""
        self._group = None

    @property
    def whole(self) -> bytes:
        """The group and the key, as they lie in the store (`milepost.state.key_groups.with_group`)."""
        if self._group is None:
            raise InvalidUse("state and timers belong to a key, so they can be used only while a key is handled")
        return self._whole

    @property
    def entries(self) -> bytes:
        """What the keys of all entries of this key begin with (`milepost.state.key_groups.entries_of`)."""
        return self.whole[:GROUP_BYTES] + write_escaped(self._key)

    def timed(self, milliseconds: int, rest: bytes) -> bytes:
        """Return a key that sorts by time within the group of the current key, and ends with ``rest``."""
        return self.whole[:GROUP_BYTES] + encode_time(milliseconds) + rest


def encode_time(milliseconds: int) -> bytes:
    """Return a time as bytes that sort as it does."""
    return (milliseconds + _OFFSET).to_bytes(MILLISECOND_BYTES, "big")


def decode_time(data: bytes) -> int:
    """Return the time that bytes begin with."""
    return int.from_bytes(data[:MILLISECOND_BYTES], "big") - _OFFSET

"""What the state variables of one run share: the store, the current key, and the time."""

from __future__ import annotations

from milepost.state.coders.escaped import write_escaped
from milepost.state.errors import InvalidUse
from milepost.state.grouped_keys import GROUP_BYTES
from milepost.state.key_groups import KeyGroups
from milepost.state.processors.times import BatchTimes, TimeMode
from milepost.state.store.contract.stores import StateStore

MILLISECOND_BYTES = 8
_OFFSET = 1 << 63


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
        """The group and the key, as they lie in the store (`milepost.state.grouped_keys.with_group`)."""
        if self._group is None:
            raise InvalidUse("state and timers belong to a key, so they can be used only while a key is handled")
        return self._whole

    @property
    def entries(self) -> bytes:
        """What the keys of all entries of this key begin with (`milepost.state.grouped_keys.entries_of`)."""
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

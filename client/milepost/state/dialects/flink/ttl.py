"""The lifetime of values of keyed state: Flink's ``StateTtlConfig``, and the time that a value carries.

The time is that of the task's clock, in milliseconds since 1970. It is the processing time, as in Flink, so it must not
go back by much: a value then lives longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

from milepost.state.coders import CoderError, FixedIntCoder
from milepost.state.errors import InvalidUse

Clock = Callable[[], int]
"""A function that returns the time in milliseconds since 1970 (``TtlTimeProvider``)."""

_STAMP = FixedIntCoder(8)
_STAMP_BYTES = 8
_MILLISECOND = timedelta(milliseconds=1)


class UpdateType(Enum):
    """The accesses that restart the lifetime of a value (``StateTtlConfig.UpdateType``)."""

    ON_CREATE_AND_WRITE = auto()
    ON_READ_AND_WRITE = auto()


class Visibility(Enum):
    """Whether a reader may see a value that has expired and still exists (``StateTtlConfig.StateVisibility``).

    If it may, it sees the value once: reading the value removes it.
    """

    NEVER_RETURN_EXPIRED = auto()
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = auto()


@dataclass(frozen=True)
class StateTtlConfig:
    """The lifetime of each value, each element of a list and each entry of a map, and the time of its clean-up.

    The settings are not part of a checkpoint, so they may change after a restore; but whether a state has any may not
    change. Whatever the settings, reading an expired value removes it.
    """

    ttl: timedelta
    """The time after which a value expires, from the start of its lifetime."""

    update: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    visibility: Visibility = Visibility.NEVER_RETURN_EXPIRED

    incremental: int = 0
    """The number of other keys that each access to the state checks (``cleanupIncrementally``); 0 checks none."""

    for_every_record: bool = False
    """Whether each new current key triggers a check of the same number of keys (``runCleanupForEveryRecord``)."""

    full_snapshot: bool = False
    """Whether each snapshot checks all keys first, and so contains no expired ones (``cleanupFullSnapshot``)."""

    def __post_init__(self) -> None:
        if self.ttl < _MILLISECOND:
            raise InvalidUse("a value lives for a millisecond at least")
        if self.incremental < 0 or (self.for_every_record and not self.incremental):
            raise InvalidUse("incremental clean-up looks at one key at least, each time")


class Lifetime:
    """Puts the time before values, and decides from it whether they have expired."""

    def __init__(self, config: StateTtlConfig, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._ttl = config.ttl // _MILLISECOND

    def stamped(self, value: bytes) -> bytes:
        """Return a value whose lifetime begins now."""
        return _STAMP.encode(self._clock()) + value

    def expired(self, kept: bytes) -> bool:
        """Return whether a stamped value has expired."""
        return _STAMP.decode(kept[:_STAMP_BYTES]) + self._ttl <= self._clock()

    @staticmethod
    def value(kept: bytes) -> bytes:
        """Return the value that `stamped` was given. Raises `CoderError`."""
        if len(kept) < _STAMP_BYTES:
            raise CoderError("a value with a time to live begins with its time in eight bytes")
        return kept[_STAMP_BYTES:]

    @property
    def renews_on_read(self) -> bool:
        """Return whether reading a value restarts its lifetime."""
        return self.config.update is UpdateType.ON_READ_AND_WRITE

    @property
    def shows_expired(self) -> bool:
        """Whether a reader sees expired values that still exist."""
        return self.config.visibility is Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP

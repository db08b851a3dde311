"""How long a value of keyed state lives: Flink's ``StateTtlConfig``, and how a value carries its time.

The time is what the task's clock says, in milliseconds since 1970. It is the processing time, as in Flink, so it must
not go back by much: a value then lives longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

from milepost.state.coders import CoderError, FixedIntCoder
from milepost.state.errors import InvalidUse

Clock = Callable[[], int]
"""Tells the time in milliseconds since 1970 (``TtlTimeProvider``)."""

_STAMP = FixedIntCoder(8)
_STAMP_BYTES = 8
_MILLISECOND = timedelta(milliseconds=1)


class UpdateType(Enum):
    """What begins the life of a value anew (``StateTtlConfig.UpdateType``)."""

    ON_CREATE_AND_WRITE = auto()
    ON_READ_AND_WRITE = auto()


class Visibility(Enum):
    """Whether a value may be seen that has expired and is still there (``StateTtlConfig.StateVisibility``).

    Where it may, it is seen once: reading it cleans it up.
    """

    NEVER_RETURN_EXPIRED = auto()
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = auto()


@dataclass(frozen=True)
class StateTtlConfig:
    """How long each value, each element of a list and each entry of a map lives, and when it is cleaned up.

    It is no part of a checkpoint, so it may be another after a restore; but whether a state has one at all may not.
    Whatever is set here, reading an expired value removes it.
    """

    ttl: timedelta
    """A value has expired this long after its life began."""

    update: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    visibility: Visibility = Visibility.NEVER_RETURN_EXPIRED

    incremental: int = 0
    """Keys that each access to the state looks at beside its own (``cleanupIncrementally``); 0 looks at none."""

    for_every_record: bool = False
    """Whether each new current key makes it look at as many (``runCleanupForEveryRecord``)."""

    full_snapshot: bool = False
    """Whether each snapshot looks at all keys first, and so has no expired ones (``cleanupFullSnapshot``)."""

    def __post_init__(self) -> None:
        if self.ttl < _MILLISECOND:
            raise InvalidUse("a value lives for a millisecond at least")
        if self.incremental < 0 or (self.for_every_record and not self.incremental):
            raise InvalidUse("incremental clean-up looks at one key at least, each time")


class Lifetime:
    """Puts the time in front of values, and says from it whether they have expired."""

    def __init__(self, config: StateTtlConfig, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._ttl = config.ttl // _MILLISECOND

    def stamped(self, value: bytes) -> bytes:
        """Return a value whose life begins now."""
        return _STAMP.encode(self._clock()) + value

    def expired(self, kept: bytes) -> bool:
        """Say whether a stamped value has expired."""
        return _STAMP.decode(kept[:_STAMP_BYTES]) + self._ttl <= self._clock()

    @staticmethod
    def value(kept: bytes) -> bytes:
        """Return what `stamped` was given. Raises `CoderError`."""
        if len(kept) < _STAMP_BYTES:
            raise CoderError("a value with a time to live begins with its time in eight bytes")
        return kept[_STAMP_BYTES:]

    @property
    def renews_on_read(self) -> bool:
        """Whether reading a value begins its life anew."""
        return self.config.update is UpdateType.ON_READ_AND_WRITE

    @property
    def shows_expired(self) -> bool:
        """Whether what has expired is returned where it is still there."""
        return self.config.visibility is Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP

"""What time it is in a batch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from milepost.state.errors import InvalidUse


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

"""A coder of points in time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from milepost.state.coders.coder import Coder, expect
from milepost.state.coders.numbers import FixedIntCoder
from milepost.state.errors import CoderError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


class TimestampCoder(Coder[datetime]):
    """A point in time as microseconds since 1970 in eight bytes that sort. It comes back in UTC, and is equal."""

    deterministic = True
    ordered = True
    width = 8

    _number = FixedIntCoder(8)

    def encode(self, value: datetime) -> bytes:
        expect(value, datetime, "a datetime")
        if value.utcoffset() is None:
            raise CoderError("a datetime without a time zone is no point in time")
        count = (value - _EPOCH) // _MICROSECOND
        self._at(count)
        return self._number.encode(count)

    def decode(self, data: bytes) -> datetime:
        return self._at(self._number.decode(data))

    @staticmethod
    def _at(count: int) -> datetime:
        try:
            return _EPOCH + timedelta(microseconds=count)
        except OverflowError as error:
            raise CoderError("the time is outside of the years 1 to 9999 of UTC") from error

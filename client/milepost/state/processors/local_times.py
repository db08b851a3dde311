"""Times without a zone, which are of this machine's zone, as points in time, and back.

Where clocks are set back, one hour is there twice. Python tells the two apart by ``fold``, so both directions keep to
it. `time.mktime` does not know of it, and decides by what it converted before.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from milepost.state.errors import CoderError

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_SECOND = 1_000_000
_CYCLE_YEARS = 400
_CYCLE_SECONDS = 146_097 * 24 * 60 * 60
"""The calendar repeats after 400 years, weekdays included, and so do the rules of a zone at both of its ends."""
_FIRST_YEAR_ENDS = (datetime(2, 1, 1) - _EPOCH) // timedelta(seconds=1)
_LAST_YEAR_BEGINS = (datetime(9999, 1, 1) - _EPOCH) // timedelta(seconds=1)


def microseconds_of(value: datetime, *, utc: bool = False) -> int:
    """Return the microseconds since 1970. A datetime without a zone is of this machine's zone, or of UTC if ``utc``.

    A time that clocks leave out is as far behind the change as it would be if they had not been changed, with
    ``fold=1`` before it (PEP 495). Raises `CoderError` for what is no time, such as pandas' NaT.
    """
    try:
        # The methods of subclasses differ: those of pandas.Timestamp take a time without a zone as UTC.
        plain = datetime(value.year, value.month, value.day, value.hour, value.minute, value.second, fold=value.fold)
        wall = (plain - _EPOCH) // _MICROSECOND + value.microsecond
        if value.tzinfo is not None:
            return wall - (value.utcoffset() or timedelta()) // _MICROSECOND
        return wall if utc else _local_seconds(plain) * _SECOND + value.microsecond
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise CoderError(f"{value} is no point in time that can be stored: {error}") from error


def local_datetime(microseconds: int) -> datetime:
    """Return the time of this machine's zone, with the ``fold`` that `microseconds_of` needs to find back."""
    seconds, rest = divmod(microseconds, _SECOND)
    cycles = _cycles(seconds < _FIRST_YEAR_ENDS, seconds >= _LAST_YEAR_BEGINS)
    found = datetime.fromtimestamp(seconds + cycles * _CYCLE_SECONDS)
    return found.replace(year=found.year - cycles * _CYCLE_YEARS, microsecond=rest)


def _local_seconds(plain: datetime) -> int:
    cycles = _cycles(plain.year == 1, plain.year == datetime.max.year)
    inside = plain.replace(year=plain.year + cycles * _CYCLE_YEARS)
    return int(inside.timestamp()) - cycles * _CYCLE_SECONDS  # whole seconds, which a float has exactly


def _cycles(first: bool, last: bool) -> int:
    """Return by how many cycles to go into the calendar, because Python looks at the day before and after as well."""
    return 1 if first else -1 if last else 0

"""Times of this machine's zone in state: each comes back, and as the same bytes, whatever was converted before."""

from __future__ import annotations

import os
import time
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.state.errors import CoderError
from milepost.state.processors import GroupingKey
from milepost.state.processors.types import json_of, reader, tuples, writer
from milepost.state.processors.variables import RowCoder

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
DAY = 24 * 60 * 60
RULES = [  # as of POSIX, so that they hold without files of zones
    "CET-1CEST,M3.5.0,M10.5.0/3",
    "EST5EDT,M3.2.0,M11.1.0",
    "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",  # by half an hour
    "IST-1GMT0,M10.5.0,M3.5.0/1",  # winter is the exception
    "AAA-13BBB10,M3.5.0,M10.5.0",  # by nearly a day
    "UTC0",
]
NAMED = [
    name for name in sorted(zoneinfo.available_timezones()) if any(Path(p, name).is_file() for p in zoneinfo.TZPATH)
]
ZONES = st.sampled_from(RULES) | st.sampled_from([*RULES, *NAMED])

KEY = GroupingKey([("at", "timestamp")])
FIELD = {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}}
ROW = RowCoder([{"type": "struct", "fields": [FIELD]}])
MAP_KEY = RowCoder(({"type": "struct", "fields": [FIELD]},), numbered=False)


@contextmanager
def zone(name: str) -> Iterator[None]:
    """Have this zone be the machine's for this process."""
    before = os.environ.get("TZ")
    try:
        os.environ["TZ"] = name
        time.tzset()
        yield
    finally:
        del os.environ["TZ"]
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def changes(year: int) -> list[int]:
    """Return the seconds at which the machine's clocks change in a year."""
    first = int(datetime(year, 1, 1, tzinfo=timezone.utc).timestamp())
    found = []
    for start in range(first, first + 366 * DAY, 6 * DAY):
        low, high = start, start + 6 * DAY
        offset = time.localtime(low).tm_gmtoff
        if time.localtime(high).tm_gmtoff == offset:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if time.localtime(middle).tm_gmtoff == offset else (low, middle)
        found.append(high)
    return found


@st.composite
def moments(draw: Any) -> tuple[str, list[int]]:
    """A zone, and microseconds since 1970, of which most are near to where its clocks change."""
    name = draw(ZONES)
    year = draw(st.integers(1850, 2100))
    with zone(name):
        places = changes(year) or [int(datetime(year, 7, 1, tzinfo=timezone.utc).timestamp())]
    near = st.sampled_from(places).flatmap(
        lambda place: (
            st.integers((place - DAY) * 1_000_000, (place + DAY) * 1_000_000)
            | st.sampled_from([-3600, -1800, -1, 0, 1, 1799, 1800, 3599, 3600]).map(lambda by: (place + by) * 1_000_000)
        )
    )
    anywhere = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)).map(
        lambda when: (when.replace(tzinfo=timezone.utc) - EPOCH) // timedelta(microseconds=1)
    )
    return name, draw(st.lists(near | anywhere, min_size=1, max_size=8))


@settings(deadline=None)
@given(moments())
def test_each_point_in_time_comes_back_in_any_order(given_: tuple[str, list[int]]) -> None:
    name, instants = given_
    read, write = reader("timestamp", tuples), writer("timestamp")
    with zone(name):
        times = [read(instant) for instant in instants]
        for instant, local in zip(instants, times, strict=True):
            assert local.timetuple()[:6] == time.localtime(instant // 1_000_000)[:6]
        assert [write(local) for local in times] == instants
        assert [write(local) for local in reversed(times)] == instants[::-1]


@settings(deadline=None)
@given(moments())
def test_keys_values_and_readers_keep_the_two_hours_apart(given_: tuple[str, list[int]]) -> None:
    name, instants = given_
    with zone(name):
        for instant in instants:
            moment = EPOCH + timedelta(microseconds=instant)
            key, row, entry = KEY.encode((moment,)), ROW.encode((moment,)), MAP_KEY.encode((moment,))
            (local,) = KEY.decode(key)
            assert local.tzinfo is None
            assert (KEY.encode((local,)), ROW.encode((local,)), MAP_KEY.encode((local,))) == (key, row, entry)
            for (found,) in (ROW.decode(row), MAP_KEY.decode(entry)):
                assert (found, found.fold) == (local, local.fold)
                assert found.astimezone(timezone.utc) == moment
            assert json_of("timestamp", local) == moment.replace(tzinfo=None).isoformat() + "Z"


@settings(deadline=None)
@given(ZONES, st.lists(st.datetimes(), min_size=2, max_size=8), st.sampled_from([0, 1]), st.sampled_from([-1, 0, 1]))
def test_the_bytes_of_a_time_do_not_depend_on_what_came_before(
    name: str, times: list[datetime], fold: int, summer: int
) -> None:
    times = [one.replace(fold=fold) for one in times]
    with zone(name):
        first = [KEY.encode((one,)) for one in times]
        for one in times:
            time.mktime((*datetime(2024, 7, 1).timetuple()[:8], summer))  # which glibc remembers
            KEY.encode((one,))
        assert [KEY.encode((one,)) for one in reversed(times)] == first[::-1]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("year", [1, 2, 9998, 9999])
def test_the_first_and_the_last_years(rule: str, year: int) -> None:
    with zone(rule):
        for local in (datetime(year, 1, 1), datetime(year, 7, 1), datetime(year, 12, 31, 23, 59, 59, 999_999)):
            assert ROW.decode(ROW.encode((local,))) == (local,)


@given(st.datetimes(timezones=st.timezones(), allow_imaginary=False), st.sampled_from([0, 1]))
def test_a_zone_of_its_own_has_the_same_two_hours(moment: datetime, fold: int) -> None:
    moment = moment.replace(fold=fold)
    offset = moment.utcoffset()
    assert offset is not None
    expected = (moment.replace(tzinfo=None) - datetime(1970, 1, 1) - offset) // timedelta(microseconds=1)
    assert writer("timestamp")(moment) == expected


def test_what_cannot_be_a_point_in_time_is_refused() -> None:
    class Missing(datetime):  # as pandas' NaT, which says that it is a datetime
        year = property(lambda _: float("nan"))

    for kind in ("timestamp", "timestamp_ntz"):
        with pytest.raises(CoderError, match="no point in time"):
            writer(kind)(Missing(2024, 1, 1))

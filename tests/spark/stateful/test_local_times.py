"""Times as pandas has them, in state: it takes a Timestamp without a zone as UTC, and its NaT is a datetime."""

from __future__ import annotations

from datetime import datetime

import pandas
import pytest

from milepost.state.errors import CoderError
from milepost.state.processors.types import writer


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("fold", [0, 1])
def test_a_timestamp_is_the_datetime_that_it_shows(kind: str, fold: int) -> None:
    shown = datetime(2024, 10, 27, 2, 30, 0, 5, fold=fold)
    assert writer(kind)(pandas.Timestamp(shown)) == writer(kind)(shown)


def test_a_timestamp_with_a_zone_is_the_same_moment() -> None:
    first = pandas.Timestamp("2024-10-27 00:30:00.000005", tz="UTC").tz_convert("Europe/Berlin")
    second = first + pandas.Timedelta(hours=1)
    assert (first.fold, second.fold) == (0, 1)
    assert writer("timestamp")(first) == 1_729_989_000_000_005
    assert writer("timestamp")(second) == 1_729_992_600_000_005


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_no_time_is_refused(kind: str) -> None:
    with pytest.raises(CoderError, match="NaT is no point in time"):
        writer(kind)(pandas.NaT)

"""When a job that failed is started again."""

from __future__ import annotations

from milepost.supervise.restarts import Restarts


def test_pauses_double_up_to_the_longest_until_the_number_is_reached() -> None:
    restarts = Restarts(5, within=100.0, first=1.0, longest=6.0)
    assert [restarts.after_failure(float(now)) for now in range(7)] == [1.0, 2.0, 4.0, 6.0, 6.0, None, None]


def test_failures_of_long_ago_count_no_more() -> None:
    restarts = Restarts(2, within=100.0)
    assert [restarts.after_failure(now) for now in (0.0, 60.0, 99.0)] == [1.0, 2.0, None]
    assert restarts.after_failure(100.0) == 2.0
    assert restarts.count == 2
    assert restarts.after_failure(1000.0) == 1.0


def test_none_at_all() -> None:
    assert Restarts(0, within=100.0).after_failure(0.0) is None


def test_pauses_stay_numbers_however_often_it_fails() -> None:
    restarts = Restarts(5000, within=100.0)
    assert {restarts.after_failure(1.0) for _ in range(5000)} == {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0}

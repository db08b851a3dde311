"""How large a group may be."""

from __future__ import annotations

from milepost_backends.contract import Change, GroupLimits

LIMITS = GroupLimits(bytes=10, value_bytes=6)


def test_within_the_limits_nothing_is_in_excess() -> None:
    assert LIMITS.excess([]) is None
    assert LIMITS.excess([Change("a", b"x" * 6), Change("b", b"x" * 4), Change("c", None), Change("d", b"")]) is None


def test_a_value_in_excess_is_named() -> None:
    assert "'b' has 7 bytes" in (LIMITS.excess([Change("a", b""), Change("b", b"x" * 7)]) or "")


def test_the_sum_in_excess_is_reported() -> None:
    assert "11 bytes" in (LIMITS.excess([Change("a", b"x" * 6), Change("b", b"x" * 5)]) or "")

"""Puts that have landed are known for a while, in bounded memory."""

from __future__ import annotations

import pytest

from milepost.errors import Problem
from milepost.wire import Code
from service.replica import landed_puts
from service.replica.landed_puts import REMEMBERED_SECONDS, LandedPuts, check_bytes
from service.rules.requests import BlobRef

BLOB = BlobRef("key", 3, "abc")


def test_a_put_is_known_with_its_bytes_until_nobody_may_send_it_any_more() -> None:
    now = 5.0
    puts = LandedPuts(lambda: now)
    puts.note("a", BLOB, replayed=False)
    found = puts.of("a")
    assert found is not None
    check_bytes(found, BlobRef("another", 3, "abc"))
    with pytest.raises(Problem) as other:
        check_bytes(found, BlobRef("key", 3, "abd"))
    assert other.value.code is Code.IDEMPOTENCY_MISMATCH
    now += REMEMBERED_SECONDS + 1
    puts.note("b", BLOB, replayed=False)
    assert puts.of("a") is None
    assert puts.of("b") is not None


def test_no_more_than_so_many_are_known_however_fast_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landed_puts, "MOST", 3)
    puts = LandedPuts(lambda: 5.0)
    for number in range(5):
        puts.note(f"{number}", BLOB, replayed=False)
    assert [number for number in range(5) if puts.of(f"{number}") is not None] == [2, 3, 4]

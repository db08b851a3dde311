"""The newest attempt at each write of a file is known, in bounded memory. An older one that comes late is not made."""

from __future__ import annotations

import sys

import pytest

from milepost.errors import OutcomeUnknown
from milepost_server.replica.trees import attempts
from milepost_server.replica.trees.attempts import NewestAttempts


def test_an_attempt_is_late_once_a_newer_one_has_begun() -> None:
    known = NewestAttempts(lambda: 5.0)
    for number in (1, 1, 2, 2, 1001):
        known.begin("a", number)
    known.begin("b", 1)
    for number in (1, 2, 1000):
        with pytest.raises(OutcomeUnknown, match="attempt 1001"):
            known.begin("a", number)
    known.check("a", 1001)


def test_first_attempts_take_no_memory_however_many_clients_make_up_keys() -> None:
    known = NewestAttempts(lambda: 5.0)
    before = sys.getsizeof(known._puts)
    for number in range(1000):
        known.begin(f"{number}", 1)
    assert sys.getsizeof(known._puts) == before


def test_no_more_than_so_many_are_known_however_fast_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MOST", 3)
    known = NewestAttempts(lambda: 5.0)
    for number in range(5):
        known.begin(f"{number}", 2)

    def is_known(number: int) -> bool:
        try:
            known.check(f"{number}", 1)
        except OutcomeUnknown:
            return True
        return False

    assert [number for number in range(5) if is_known(number)] == [2, 3, 4]

"""Puts that have been committed are known for a while, in bounded memory."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from milepost.errors import OutcomeUnknown, Problem
from milepost.wire import Code
from milepost_server.replica import applied_writes
from milepost_server.replica.applied_writes import REMEMBERED_SECONDS, AppliedWrites, NewestAttempts, check_same
from milepost_server.rules.decisions import Answer
from milepost_server.rules.requests.base import LEADER, BlobRef
from milepost_server.rules.requests.trees import DeletePath, PutFile

PUT = PutFile(LEADER, "flights", "a/b", 1, BlobRef("key", 3, "abc"))
ANSWER = Answer(version="7", created=True)


def test_a_put_is_known_with_its_bytes_until_nobody_may_send_it_any_more() -> None:
    now = 5.0
    puts = AppliedWrites(lambda: now)
    puts.note("a", PUT, ANSWER)
    found = puts.of("a")
    assert found is not None
    assert (found.answer.version, found.answer.created, found.answer.replayed) == ("7", True, True)
    check_same(found, replace(PUT, blob=BlobRef("another", 3, "abc")))
    others = (
        replace(PUT, blob=BlobRef("key", 3, "abd")),
        replace(PUT, path="a/c"),
        replace(PUT, overwrite=True),
        DeletePath(LEADER, "flights", "a/b", 1),
    )
    for other in others:
        with pytest.raises(Problem) as refused:
            check_same(found, other)
        assert refused.value.code is Code.IDEMPOTENCY_MISMATCH
    now += REMEMBERED_SECONDS + 1
    puts.note("b", PUT, ANSWER)
    assert puts.of("a") is None
    assert puts.of("b") is not None


def test_no_more_than_so_many_are_known_however_fast_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applied_writes, "MOST", 3)
    puts = AppliedWrites(lambda: 5.0)
    for number in range(5):
        puts.note(f"{number}", PUT, ANSWER)
    assert [number for number in range(5) if puts.of(f"{number}") is not None] == [2, 3, 4]


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


def test_no_more_attempts_than_so_many_are_known_however_fast_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applied_writes, "_MOST_PUTS", 3)
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

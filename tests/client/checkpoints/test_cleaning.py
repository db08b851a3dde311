"""Which checkpoints go: the cases of Flink's tests, and what must hold for any history."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.checkpoints import Checkpoint
from milepost.checkpoints.cleaning import superfluous
from milepost.checkpoints.records import SAVEPOINT_LABEL, checkpoint_of, name_of, number_of
from milepost.types import Handle


def of(number: int, savepoint: bool = False, name: str | None = None) -> Checkpoint:
    now = datetime(2026, 3, 1, tzinfo=timezone.utc)
    labels = {SAVEPOINT_LABEL: "true"} if savepoint else {}
    checkpoint = checkpoint_of(Handle(name or name_of(number), f"v{number}", 0, "", now, now, labels))
    assert checkpoint is not None
    return checkpoint


def history(text: str) -> list[Checkpoint]:
    """``cp sp cp``: checkpoints and savepoints, numbered from 1."""
    return [of(number, kind == "sp") for number, kind in enumerate(text.split(), 1)]


@pytest.mark.parametrize(
    ("taken", "retain", "stay"),
    [
        ("cp cp sp sp sp", 1, [2, 5]),
        ("cp sp cp", 1, [3]),
        ("cp cp cp", 3, [1, 2, 3]),
        ("cp cp cp cp", 3, [2, 3, 4]),
        ("sp sp", 1, [2]),
        ("cp sp sp", 2, [1, 3]),
        ("", 1, []),
    ],
)
def test_what_stays(taken: str, retain: int, stay: list[int]) -> None:
    checkpoints = history(taken)
    gone = superfluous(checkpoints, retain)
    assert [checkpoint.number for checkpoint in checkpoints if checkpoint not in gone] == stay


@given(st.lists(st.sampled_from(["cp", "sp"]), max_size=12), st.integers(1, 5))
def test_whatever_was_taken_there_is_something_to_restart_from(kinds: list[str], retain: int) -> None:
    checkpoints = history(" ".join(kinds))
    gone = superfluous(checkpoints, retain)
    stay = [checkpoint for checkpoint in checkpoints if checkpoint not in gone]
    assert len(stay) >= min(retain, len(checkpoints))
    assert len(stay) <= max(retain, 2)
    own = [checkpoint for checkpoint in checkpoints if not checkpoint.savepoint]
    assert stay[-1:] == checkpoints[-1:]
    assert not own or own[-1] in stay
    # Of those that may go, the oldest go first.
    may_stay = [checkpoint for checkpoint in stay if checkpoint not in (*own[-1:], *checkpoints[-1:])]
    assert all(old.number < kept.number for old in gone for kept in may_stay)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("checkpoint-7", 7),
        ("checkpoint-0000000000000000007", 7),
        ("checkpoint-", None),
        ("checkpoint-7.bak", None),
        ("checkpoint--7", None),
        ("checkpoint-٣", None),
        ("my-checkpoint-7", None),
        ("checkpoint-7\n", None),
        ("checkpoint-" + "9" * 20, None),
    ],
)
def test_names_are_read_as_numbers(name: str, number: int | None) -> None:
    assert number_of(name) == number


@given(st.integers(0, 10**19 - 1), st.integers(0, 10**19 - 1))
def test_names_sort_as_their_numbers_do(one: int, two: int) -> None:
    assert number_of(name_of(one)) == one
    assert (name_of(one) < name_of(two)) == (one < two)


@pytest.mark.parametrize("number", [-1, 10**19])
def test_numbers_have_limits(number: int) -> None:
    with pytest.raises(ValueError, match="19 digits"):
        name_of(number)

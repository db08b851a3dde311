"""A step beside another: waited for, and what it raises comes first."""

from __future__ import annotations

import threading

import pytest

from milepost.spark.beside import Beside

_SECONDS = 30.0


def refused() -> None:
    raise PermissionError("refused")


def test_both_run_at_the_same_time_and_the_block_waits() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def step() -> None:
        begun.set()
        assert go_on.wait(_SECONDS)
        done.append("step")

    with Beside(step, "step"):
        assert begun.wait(_SECONDS)
        go_on.set()
    assert done == ["step"]


def test_what_the_step_raises_is_raised_where_it_is_waited_for() -> None:
    with Beside(lambda: None, "step") as other:
        other.join()
    with pytest.raises(PermissionError), Beside(refused, "step") as other:
        other.join()


def test_what_the_step_raises_is_raised_at_the_end_of_the_block() -> None:
    with pytest.raises(PermissionError), Beside(refused, "step"):
        pass


def test_a_refusal_stands_before_what_the_block_raised() -> None:
    with pytest.raises(PermissionError) as raised, Beside(refused, "step"):
        raise KeyError("beside it")
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_block_may_fail_by_itself() -> None:
    done = threading.Event()
    with pytest.raises(KeyError), Beside(done.set, "step"):
        raise KeyError("by itself")
    assert done.is_set()

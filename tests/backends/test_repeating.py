"""What fails for a moment is repeated with growing pauses, for as long as a caller is patient, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from milepost_backends.contract import BlobExists, StorageFull, StorageRefused, StorageUnavailable
from milepost_backends.repeating import READ_REPEATS, READ_SECONDS, Pauses, read_again, reading, repeated
from tests.simulation.world.loop import VirtualLoop

T = TypeVar("T")


class Attempts:
    """Fails with each of ``errors``, then with the last of them for ever; each attempt takes so many seconds."""

    def __init__(self, *errors: Exception | None, takes: float = 0.0) -> None:
        self.errors = list(errors)
        self.takes = takes
        self.at: list[float] = []

    async def __call__(self) -> str:
        self.at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.takes)
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        if error is not None:
            raise error
        return "done"


def play(work: Coroutine[Any, Any, T]) -> T:
    """Run it on a clock of its own."""

    async def timed() -> T:
        asyncio.get_running_loop().call_later(7200.0, str)  # that clock goes on as long as something is due
        return await work

    return VirtualLoop().run(timed())  # type: ignore[abstract]  # as in the simulator, what is never called is left out


AWAY = StorageUnavailable("a fault of this test")


def test_what_is_done_the_first_time_is_asked_once() -> None:
    attempts = Attempts(None)
    assert play(repeated(attempts, 20.0)) == "done"
    assert len(attempts.at) == 1


@pytest.mark.parametrize("failures", [1, 2, 7])
def test_what_fails_for_a_moment_is_done(failures: int) -> None:
    attempts = Attempts(*[AWAY] * failures, None)
    assert play(repeated(attempts, 20.0)) == "done"
    assert len(attempts.at) == failures + 1


@pytest.mark.parametrize("takes", [0.0, 0.3, 10.0])
@pytest.mark.parametrize("patience", [0.0, 2.0, 20.0])
def test_no_attempt_begins_when_patience_is_over(patience: float, takes: float) -> None:
    attempts = Attempts(AWAY, takes=takes)
    with pytest.raises(StorageUnavailable, match="a fault of this test"):
        play(repeated(attempts, patience))
    assert attempts.at[0] == attempts.at[-1] or attempts.at[-1] - attempts.at[0] < patience
    assert len(attempts.at) > 1 or patience <= takes


def test_pauses_grow_to_a_bound_and_differ() -> None:
    first, second = Attempts(AWAY), Attempts(AWAY)
    for attempts in (first, second):
        with pytest.raises(StorageUnavailable):
            play(repeated(attempts, 60.0))
    pauses = [later - earlier for earlier, later in zip(first.at, first.at[1:], strict=False)]
    assert 0.05 <= pauses[0] <= 0.15
    assert max(pauses) <= 3.0
    assert 20 < len(pauses) < 65
    assert first.at[1:3] != second.at[1:3]


@pytest.mark.parametrize("error", [StorageRefused("no"), StorageFull("no"), BlobExists("no"), ZeroDivisionError("no")])
def test_other_ends_are_not_repeated(error: Exception) -> None:
    attempts = Attempts(AWAY, error)
    with pytest.raises(type(error)):
        play(repeated(attempts, 20.0))
    assert len(attempts.at) == 2


@pytest.mark.parametrize("takes", [0.0, 10.0])
def test_a_read_is_repeated_more_than_twice_however_long_it_takes(takes: float) -> None:
    attempts = Attempts(AWAY, takes=takes)
    with pytest.raises(StorageUnavailable):
        play(read_again(attempts))
    assert len(attempts.at) >= READ_REPEATS + 1
    assert attempts.at[READ_REPEATS + 1 :] == [] or attempts.at[-1] - attempts.at[0] < READ_SECONDS


def test_a_pause_can_be_cancelled() -> None:
    async def cancelled() -> None:
        waiting = asyncio.ensure_future(Pauses(20.0).after(AWAY))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(StorageRefused):
            await reading().after(StorageRefused("no"))

    play(cancelled())

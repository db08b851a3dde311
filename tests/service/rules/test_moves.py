"""A job leaves a cell by one move under each epoch, whose seal stays the one that its copy knows."""

from __future__ import annotations

from milepost.wire import Code
from milepost_server.model.moves import MOVED
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import Campaign, Resign
from milepost_server.model.requests.moves import BeginDeparture, EndDeparture
from tests.service.rules.bench import STORE, Bench
from tests.service.rules.test_placement import AB, cell, place


def freeze(move: str, epoch: int, seal: str, to: str = "b") -> BeginDeparture:
    return BeginDeparture(Attempt("s"), STORE, move, epoch, to, seal)


def led() -> Bench:
    bench = cell("a")
    bench.done(place(AB))
    bench.done(Campaign(Attempt("s"), store_name=STORE))
    return bench


def test_another_move_under_the_same_epoch_does_not_replace_the_first() -> None:
    """Else a late request of the first would draw a seal that its copy does not know, and the job would be nowhere."""
    bench = led()
    bench.done(freeze("first", 1, "seal-1"))
    assert bench.code(freeze("second", 1, "seal-2")) is Code.FENCED
    bench.done(freeze("first", 1, "seal-3"))
    bench.done(EndDeparture(Attempt("s"), STORE, "first", 1))
    move = bench.store().move
    assert move is not None
    assert (move.phase, move.id, move.seal) == (MOVED, "first", "seal-1")


def test_another_move_freezes_the_job_under_the_next_epoch() -> None:
    bench = led()
    bench.done(freeze("first", 1, "seal-1"))
    bench.done(Resign(Attempt("s"), store_name=STORE))
    bench.done(Campaign(Attempt("s"), store_name=STORE))
    bench.done(freeze("second", 2, "seal-2"))
    assert bench.code(EndDeparture(Attempt("s"), STORE, "first", 2)) is Code.FENCED
    bench.done(EndDeparture(Attempt("s"), STORE, "second", 2))

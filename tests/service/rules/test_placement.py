"""In a cell, a store begins by an explicit request with the cell's own list of cells, and by nothing else."""

from __future__ import annotations

import pytest

from milepost.wire import Code, cells_digest
from milepost_server.model.records import DEPLOYMENT_KEY, Corrupt, Deployment
from milepost_server.model.requests.base import LEADER, Attempt, Request
from milepost_server.model.requests.handles import Campaign, Clear, LockAll, PlaceJob, ReportRows
from milepost_server.model.requests.sessions import CreateDeployment
from milepost_server.model.requests.trees import MakeDirectory, PutFile
from tests.service.rules.bench import STORE, Bench, add, blob

AB, ABC = ("a", "b"), ("a", "b", "c")

BEGINNINGS: list[Request] = [
    add("s", "h"),
    Campaign(Attempt("s"), store_name=STORE),
    LockAll(Attempt("s"), store_name=STORE),
    PutFile(Attempt(""), store_name=STORE, path="f", blob=blob("x")),
    MakeDirectory(Attempt(""), store_name=STORE, path="d"),
]


def cell(name: str = "a", names: tuple[str, ...] = AB) -> Bench:
    """A cell with a session, and with no store yet."""
    bench = Bench()
    bench.done(CreateDeployment(LEADER, "d-1", name, names))
    return _with_session(bench)


def _with_session(bench: Bench) -> Bench:
    other = Bench("s")
    bench.state.apply(other.state.records.items())
    return bench


def place(names: tuple[str, ...], store: str = STORE) -> PlaceJob:
    return PlaceJob(Attempt(""), store, cells_digest(names))


def deployment(bench: Bench) -> Deployment:
    record = bench.state.get(DEPLOYMENT_KEY)
    assert isinstance(record, Deployment)
    return record


@pytest.mark.parametrize("write", BEGINNINGS, ids=lambda write: type(write).__name__)
def test_a_write_begins_no_store_in_a_cell(write: Request) -> None:
    bench = cell()
    refused = bench.refused(write)
    assert (refused.code, refused.extras) == (Code.CELLS_DIFFER, {"cell": "a", "cells": ["a", "b"]})
    bench.done(place(AB))
    bench.accepted(write)


@pytest.mark.parametrize("write", BEGINNINGS, ids=lambda write: type(write).__name__)
def test_a_write_begins_a_store_where_there_are_no_cells(write: Request) -> None:
    _with_session(Bench()).accepted(write)


def test_a_request_that_changes_nothing_is_answered_without_a_store() -> None:
    bench = cell()
    assert bench.accepted(Clear(Attempt("s"), store_name=STORE)).changes == {}
    rows = ReportRows(Attempt("s"), store_name=STORE, epoch=1, directory="checkpoint", rows={0: 1})
    assert bench.code(rows) is Code.FENCED


def test_a_store_begins_by_the_list_of_the_cell_and_by_no_other() -> None:
    bench = cell("b", AB)
    for names in (ABC, ("b",), ("a",), ("a", "c")):
        refused = bench.refused(place(names))
        assert (refused.code, refused.extras) == (Code.CELLS_DIFFER, {"cell": "b", "cells": ["a", "b"]})
    assert bench.accepted(place(AB)).changes
    assert not bench.accepted(place(AB)).changes
    assert not bench.accepted(place(ABC)).changes, "it is there, whatever list the client has"


def test_no_store_is_placed_in_a_deployment_that_is_no_cell() -> None:
    bench = _with_session(Bench())
    assert bench.code(place(AB)) is Code.CELLS_DIFFER
    bench.done(CreateDeployment(LEADER, "d-1"))
    assert bench.code(place(AB)) is Code.CELLS_DIFFER
    bench.accepted(add("s", "h"))


def test_no_store_begins_while_the_record_of_the_deployment_is_damaged() -> None:
    bench = cell()
    bench.done(place(AB))
    bench.state.apply([(DEPLOYMENT_KEY, Corrupt(DEPLOYMENT_KEY, "bits"))])
    assert bench.code(place(AB, "trains")) is Code.CORRUPT
    assert bench.code(Campaign(Attempt("s"), store_name="trains")) is Code.CORRUPT
    bench.accepted(add("s", "h"))


def test_a_deployment_becomes_a_cell_and_keeps_its_id_and_its_stores() -> None:
    bench = _with_session(Bench())
    bench.done(CreateDeployment(LEADER, "d-1"))
    bench.accepted(add("s", "h"))
    assert bench.done(CreateDeployment(LEADER, "d-2", "a", AB)) == {"deployment": "d-1"}
    assert deployment(bench) == Deployment("d-1", "a", AB)
    bench.accepted(add("s", "i"))
    assert bench.code(Campaign(Attempt("s"), store_name="trains")) is Code.CELLS_DIFFER


@pytest.mark.parametrize(
    ("later", "kept"),
    [
        (("a", ABC), ABC),
        (("a", ("a",)), AB),
        (("a", ("a", "c")), AB),
        (("", ()), AB),
    ],
    ids=["longer", "shorter", "another", "none"],
)
def test_a_list_of_cells_only_grows(later: tuple[str, tuple[str, ...]], kept: tuple[str, ...]) -> None:
    """The settings of a replica that leads later may be older."""
    bench = cell("a", AB)
    assert bench.done(CreateDeployment(LEADER, "d-2", *later)) == {"deployment": "d-1"}
    assert deployment(bench) == Deployment("d-1", "a", kept)


def test_a_cell_keeps_its_name() -> None:
    bench = cell("a", AB)
    assert bench.code(CreateDeployment(LEADER, "d-2", "b", ABC)) is Code.CELLS_DIFFER
    assert deployment(bench) == Deployment("d-1", "a", AB)

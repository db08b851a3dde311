"""Whom a guard lets pass."""

from __future__ import annotations

import pytest

from milepost.wire import Code
from service.rules.requests import Add, Attempt, BlobRef, Campaign, MakeDirectory, PutFile, Request
from tests.service.rules.bench import STORE, Bench

KINDS = ["handle", "file", "directory"]


def write(kind: str, epoch: int | None) -> Request:
    if kind == "handle":
        return Add(Attempt("a"), store_name=STORE, name="h", epoch=epoch)
    if kind == "file":
        return PutFile(Attempt("", "k"), STORE, "f", epoch, BlobRef("", 1, "0"), b"x")
    return MakeDirectory(Attempt(""), STORE, "d", epoch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epoch", [0, 1])
def test_where_no_epoch_was_granted_every_number_is_refused(kind: str, epoch: int) -> None:
    bench = Bench("a")
    bench.accepted(Add(Attempt("a"), store_name=STORE, name="there"))
    assert bench.code(write(kind, epoch)) is Code.FENCED
    bench.accepted(write(kind, None))


@pytest.mark.parametrize("kind", KINDS)
def test_where_one_was_granted_every_other_is_refused(kind: str) -> None:
    bench = Bench("a")
    bench.accepted(Campaign(Attempt("a"), store_name=STORE))
    for epoch in (None, 0, 2):
        assert bench.code(write(kind, epoch)) is Code.FENCED
    bench.accepted(write(kind, 1))

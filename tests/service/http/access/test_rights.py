"""Patterns of stores, and which right each call needs."""

from __future__ import annotations

from itertools import product

import pytest

from milepost.operations import OPERATIONS
from milepost.operations.handles import BEGIN_ARRIVAL
from milepost.operations.operation import Right
from milepost.operations.replicas import OPENAPI
from milepost_server.compose import routes
from milepost_server.http.access.permission import SHORT
from milepost_server.http.access.rights import EVERYTHING, READING, Patterns, Rights


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("flights", ["flights"], ["flight", "flights2", "xflights", "Flights", "", "flights\n"]),
        ("flights-*", ["flights-", "flights-eu", "flights-*"], ["flights", "xflights-eu"]),
        ("*-eu", ["-eu", "flights-eu"], ["eu", "flights-eu2"]),
        ("a*b*c", ["abc", "axxbxxc", "abcbc"], ["ac", "acb", "abcx"]),
        ("*", ["x", "a.b_c-d", "x" * 200], []),
        ("a.b", ["a.b"], ["axb"]),
        ("a_b-c", ["a_b-c"], ["a_bxc"]),
    ],
)
def test_a_star_is_any_characters_and_all_others_are_themselves(
    pattern: str, matched: list[str], others: list[str]
) -> None:
    patterns = Patterns((pattern,))
    assert [name for name in matched if not patterns.match(name)] == []
    assert [name for name in others if patterns.match(name)] == []


@pytest.mark.parametrize("pattern", ["", "a?", "[ab]", "a/b", ".a", "a,b", "a b", "é", "x" * 201, "a\n"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match="is no pattern of names"):
        Patterns(("fine", pattern))


def test_no_pattern_takes_long_whatever_the_name() -> None:
    """With an expression that tries each place again, this would not end before the test's time does."""
    patterns = Patterns(("*a" * 40 + "*b",))
    for _ in range(100):
        assert not patterns.match("a" * 200)


def test_none_match_nothing_and_rights_add_up() -> None:
    nothing = Rights()
    assert not any((nothing.may_read("x"), nothing.may_write("x"), nothing.reads_all, nothing.writes_any))
    both = Rights(reader=Patterns(("a-*",))) + Rights(writer=Patterns(("b",)))
    assert [store for store in ("a-1", "b", "c") if both.may_read(store)] == ["a-1", "b"]
    assert [store for store in ("a-1", "b", "c") if both.may_write(store)] == ["b"]
    assert (both.reads_all, both.writes_any, (both + EVERYTHING).admin) == (False, True, True)
    assert READING.reads_all
    assert not READING.writes_any


def test_each_operation_has_one_route() -> None:
    calls = [f"{method} {route.path.replace(':path}', '}')}" for route in routes() for method in route.methods or ()]
    assert sorted(calls) == sorted(OPERATIONS.keys() - {OPENAPI.call})


def test_only_these_are_open() -> None:
    opened = {each.path for each in OPERATIONS.values() if each.right is Right.NOTHING}
    health = {"/livez", "/readyz", "/leader", "/metrics"}
    pages = {"/", "/page/{name}", "/docs", "/docs/{name}", "/openapi.json"}
    assert opened == health | pages | {"/oauth2/token", "/datanodes/heartbeat", "/datanodes/publish"}


def test_every_change_of_a_store_needs_a_writer() -> None:
    reading = {"GET", "HEAD"}
    changing_nothing = "/tree/verification"
    for call, operation in OPERATIONS.items():
        method, path = call.split()
        if "{store}" in path and not path.endswith(changing_nothing):
            of_job = "/files" in path
            reads, writes = (Right.READ_OF_JOB, Right.WRITE_OF_JOB) if of_job else (Right.READ, Right.WRITE)
            if operation is BEGIN_ARRIVAL:  # it may raise the revision of the whole cell
                writes = Right.ADMIN
            assert operation.right is (reads if method in reading else writes), call


WRITER, READER = Rights(writer=Patterns(("a",))), Rights(reader=Patterns(("a",)))
ALLOWED = {
    Right.NOTHING: {"writer", "reader", "reads all", "nothing", "admin"},
    Right.TOKEN: {"writer", "reader", "reads all", "nothing", "admin"},
    Right.READ: {"writer", "reader", "reads all", "admin"},
    Right.READ_OF_JOB: {"writer", "reader", "reads all", "admin"},
    Right.WRITE: {"writer", "admin"},
    Right.WRITE_OF_JOB: {"writer", "admin"},
    Right.READ_ALL: {"reads all", "admin"},
    Right.WRITE_ANY: {"writer", "admin"},
    Right.ADMIN: {"admin"},
}
WHO = {"writer": WRITER, "reader": READER, "reads all": READING, "nothing": Rights(), "admin": EVERYTHING}


def test_who_may_what() -> None:
    assert ALLOWED.keys() == set(Right)
    assert SHORT.keys() == set(Right) - {Right.NOTHING, Right.TOKEN}
    for right, (name, rights) in product(Right, WHO.items()):
        assert rights.allow(right, "a") is (name in ALLOWED[right]), (right, name)
        elsewhere = right in (Right.READ, Right.READ_OF_JOB, Right.WRITE, Right.WRITE_OF_JOB)
        if elsewhere and name in ("writer", "reader"):
            assert not rights.allow(right, "b")
        if elsewhere and name != "admin":
            assert not rights.allow(right, None)

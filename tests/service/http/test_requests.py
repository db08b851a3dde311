"""Header fields, as they are looked up."""

from __future__ import annotations

from milepost_server.http.requests import Fields


def test_a_field_is_found_by_a_name_in_any_case() -> None:
    fields = Fields([(b"milepost-session", b"s"), (b"if-match", b'"v"')])
    assert fields.get("Milepost-Session") == "s"
    assert fields.all("IF-MATCH") == ['"v"']
    assert "If-Match" in fields
    assert list(fields.items()) == [("milepost-session", "s"), ("if-match", '"v"')]


def test_a_field_that_is_not_there() -> None:
    fields = Fields([(b"accept", b"")])
    assert fields.get("Content-Type") == ""
    assert fields.get("Content-Type", "none") == "none"
    assert fields.get("Accept", "none") == ""
    assert fields.all("Content-Type") == []
    assert "Content-Type" not in fields


def test_a_field_that_appears_twice_is_given_as_often_and_in_order() -> None:
    fields = Fields([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")])
    assert fields.all("A") == ["1", "3"]
    assert fields.get("a") == "1"
    assert fields.all("b") == ["2"]


def test_values_are_latin_1() -> None:
    assert Fields([(b"milepost-label-a", b"caf\xe9")]).get("Milepost-Label-a") == "caf\xe9"

"""``Milepost-Labels``, and ``Milepost-Label-<key>`` as older SDKs send: at most 32, keys ``a-z 0-9 . _ -``, values to
256 characters; a replace with none keeps the old ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, problem
from tests.wire.support.unchanged import nothing_changed


def whole(labels: Mapping[str, str]) -> dict[str, str]:
    """The header that has all labels."""
    return {"Milepost-Labels": json.dumps(labels)}


def test_they_stand_in_the_record(api: Api) -> None:
    record = api.with_headers({"Milepost-Label-batch": "7", "Milepost-Label-a.b_c-9": 'x = "y", z'}).added("a")
    assert record["labels"] == {"batch": "7", "a.b_c-9": 'x = "y", z'}
    assert api.get("a").json()["labels"] == record["labels"]
    assert api.handles().json()["handles"][0]["labels"] == record["labels"]


def test_keys_are_lower_cased_as_header_names_are(api: Api) -> None:
    assert api.with_headers({"milepost-LABEL-Batch": "7"}).added("a")["labels"] == {"batch": "7"}


def test_none_is_an_empty_object(api: Api) -> None:
    assert api.added("a")["labels"] == {}


def test_as_many_and_as_long_as_allowed(api: Api) -> None:
    sent = {f"Milepost-Label-key{number}": "v" * 256 for number in range(32)}
    labels = api.with_headers(sent).added("a")["labels"]
    assert labels == {f"key{number}": "v" * 256 for number in range(32)}
    assert api.with_headers({"Milepost-Label-empty": ""}).added("b")["labels"] == {"empty": ""}


TOO_MUCH = {
    "33 labels": {f"Milepost-Label-key{number}": "v" for number in range(33)},
    "257 characters": {"Milepost-Label-key": "v" * 257},
    "no key": {"Milepost-Label-": "v"},
    "key with +": {"Milepost-Label-a+b": "v"},
    "key with ~": {"Milepost-Label-a~b": "v"},
}


@pytest.mark.parametrize("sent", TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_is_not_allowed_is_refused(api: Api, server: ServerProcess, sent: dict[str, str]) -> None:
    version = api.added("there")["version"]
    with nothing_changed(api, server):
        problem(api.with_headers(sent).add("a"), 422, "invalid-request")
        problem(api.with_headers(sent).replace("there", version), 422, "invalid-request")


def test_one_key_twice_is_refused(api: Api, server: ServerProcess) -> None:
    tag = f'"{api.added("there")["version"]}"'
    headers = [("Milepost-Session", str(api.session)), ("Milepost-Label-a", "1"), ("Milepost-Label-A", "2")]
    path = f"/v1/stores/{api.store}/handles"
    with nothing_changed(api, server):
        problem(api.http.post(f"{path}/a", headers=headers, content=b""), 422, "invalid-request")
        replacing = [*headers, ("If-Match", tag)]
        problem(api.http.put(f"{path}/there", headers=replacing, content=b""), 422, "invalid-request")


def test_replace_with_none_keeps_the_old_ones_and_with_some_takes_only_those(api: Api) -> None:
    first = api.with_headers({"Milepost-Label-a": "1", "Milepost-Label-b": "2"}).added("a")
    kept = api.replace("a", first["version"]).json()
    assert kept["labels"] == {"a": "1", "b": "2"}
    given = api.with_headers({"Milepost-Label-c": "3"}).replace("a", kept["version"]).json()
    assert given["labels"] == {"c": "3"}
    assert api.get("a").json()["labels"] == {"c": "3"}


ODD = {"batch": "7", "a.b_c-9": 'x = "y", \\ z', "empty": ""}


def test_all_of_them_in_one_header(api: Api) -> None:
    first = api.with_headers(whole(ODD)).added("a")
    assert first["labels"] == ODD
    kept = api.replace("a", first["version"]).json()
    assert kept["labels"] == ODD
    given = api.with_headers(whole({"c": "3"})).replace("a", kept["version"]).json()
    assert given["labels"] == {"c": "3"}
    none = api.with_headers(whole({})).replace("a", given["version"]).json()
    assert none["labels"] == api.get("a").json()["labels"] == {}
    assert api.with_headers(whole({})).added("b")["labels"] == {}


def test_as_long_as_allowed_in_one_header(api: Api) -> None:
    short = json.dumps({f"key-{number}": "v" * 230 for number in range(32)})
    as_long = "{" + short[1:].rjust(7999)
    assert api.with_headers({"Milepost-Labels": as_long}).added("a")["labels"] == json.loads(as_long)


def test_those_that_came_by_themselves_as_well_say_the_same(api: Api) -> None:
    """A proxy dropped one of them by its name."""
    sent = {**whole(ODD), "Milepost-Label-batch": "7", "Milepost-Label-empty": ""}
    assert api.with_headers(sent).added("a")["labels"] == ODD


REFUSED = {
    "no JSON": "batch=7",
    "nothing": "",
    "cut short": '{"a": "1"',
    "two objects": '{"a": "1"}, {"b": "2"}',
    "list": '[["a", "1"]]',
    "text": '"a"',
    "null": "null",
    "number for a value": '{"a": 7}',
    "list for a value": '{"a": []}',
    "object for a value": '{"a": {"b": "1"}}',
    "null for a value": '{"a": null}',
    "one key twice": '{"a": "1", "a": "1"}',
    "key in upper case": '{"A": "1"}',
    "no key": '{"": "1"}',
    "key of 65": json.dumps({"k" * 65: "1"}),
    "257 characters": json.dumps({"a": "v" * 257}),
    "33 labels": json.dumps({f"key{number}": "v" for number in range(33)}),
    "8001 characters": '{"a": "1",' + " " * 7981 + '"b": "22"}',
    "control character": r'{"a": "\u0000"}',
    "end of line": r'{"a": "\n"}',
    "half a surrogate": r'{"a": "\ud800"}',
    "not ASCII": r'{"a": "\u00e9"}',
    "not ASCII as it is": '{"a": "\u00e9"}',
    "blank in front": '{"a": " 1"}',
    "blank behind": '{"a": "1 "}',
    "deep": "[" * 7999,
    "long number": "1" * 7999,
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
def test_what_one_header_may_not_say(api: Api, server: ServerProcess, sent: str) -> None:
    version = api.added("there")["version"]
    headers = [(b"Milepost-Session", str(api.session).encode()), (b"Milepost-Labels", sent.encode("latin-1"))]
    path = f"/v1/stores/{api.store}/handles"
    with nothing_changed(api, server):
        problem(api.http.post(f"{path}/a", headers=headers, content=b""), 422, "invalid-request")
        replacing = [*headers, (b"If-Match", f'"{version}"'.encode())]
        problem(api.http.put(f"{path}/there", headers=replacing, content=b""), 422, "invalid-request")


CONTRADICTIONS = {
    "another value": {**whole({"a": "1"}), "Milepost-Label-a": "2"},
    "one more": {**whole({"a": "1"}), "Milepost-Label-a": "1", "Milepost-Label-b": "2"},
    "some and none": {**whole({}), "Milepost-Label-a": "1"},
}


@pytest.mark.parametrize("sent", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_headers_that_contradict_each_other_are_refused(api: Api, server: ServerProcess, sent: dict[str, str]) -> None:
    with nothing_changed(api, server):
        problem(api.with_headers(sent).add("a"), 422, "invalid-request")

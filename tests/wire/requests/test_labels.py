"""``Milepost-Label-<key>``: at most 32, keys ``a-z 0-9 . _ -``, values to 256 characters; a replace with none keeps
the old ones.
"""

from __future__ import annotations

import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, problem
from tests.wire.support.unchanged import nothing_changed


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

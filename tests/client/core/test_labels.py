"""The headers that labels go in, and what is made of labels that did not arrive."""

from __future__ import annotations

import json

import pytest

from milepost.core.labels import check_labels, label_headers
from milepost.errors import InvalidRequest, LabelsLost
from milepost.wire import MAX_LABELS_LENGTH
from tests.client.core.test_store import ADDED, HANDLE, store
from tests.client.core.world import CUT, RECORD, World, answer


def test_all_go_in_one_header_and_those_that_proxies_let_pass_by_themselves_too() -> None:
    labels = {"batch": "7", "a.b": "1", "c_d": "2", "e-f": 'x "y"'}
    headers = label_headers(labels)
    assert json.loads(headers.pop("Milepost-Labels")) == labels
    assert headers == {"Milepost-Label-batch": "7", "Milepost-Label-e-f": 'x "y"'}
    assert label_headers({}) == {}


def test_labels_are_refused_that_are_too_long_for_one_line() -> None:
    labels = {f"key.{number}": "v" * 240 for number in range(31)}
    left = MAX_LABELS_LENGTH - len(label_headers({**labels, "last": ""})["Milepost-Labels"])
    assert len(label_headers({**labels, "last": "v" * left})["Milepost-Labels"]) == MAX_LABELS_LENGTH
    with pytest.raises(InvalidRequest, match=f"at most {MAX_LABELS_LENGTH} "):
        label_headers({**labels, "last": "v" * (left + 1)})
    plain = {f"key-{number}": "v" * 256 for number in range(32)}
    assert label_headers(plain) == {f"Milepost-Label-{key}": value for key, value in plain.items()}


@pytest.mark.parametrize(
    ("sent", "missing"),
    [({"batch": "8"}, "(batch)"), ({"batch": "7", "b.c": "1", "a.b": "1"}, "(a.b, b.c)")],
)
def test_labels_that_did_not_arrive(sent: dict[str, str], missing: str) -> None:
    world = World(CUT, answer({**RECORD, "name": "h"}, 201, milepost_replayed="true", x_request_id="r7"))
    with pytest.raises(LabelsLost) as raised:
        world.run(store(world).add_and_lock("h", b"", sent))
    assert missing in str(raised.value)
    assert (raised.value.handle.version, raised.value.handle.labels) == ("abc.7", {"batch": "7"})
    assert raised.value.request_id == "r7"


def test_a_replace_without_labels_keeps_those_that_are_there() -> None:
    unlabelled: list[dict[str, str] | None] = [None, {}]
    for labels in unlabelled:
        world = World(HANDLE)
        assert world.run(store(world).replace("h", "abc.6", b"", labels)).labels == {"batch": "7"}


def test_labels_that_arrived() -> None:
    world = World(ADDED)
    handle = world.run(store(world).add_and_lock("h", b"", {"batch": "7"}))
    check_labels(handle, {"batch": "7"})

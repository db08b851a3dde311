"""If-Match: the quoted version, one only, no weak tags, no ``*``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, Json, problem
from tests.wire.support.unchanged import nothing_changed

WRONG_FORMS = {
    "star": "*",
    "bare": "{version}",
    "weak": 'W/"{version}"',
    "list": '"{version}", "{version}"',
    "list of others": '"{version}", "b"',
    "unclosed": '"{version}',
    "empty tag": '""',
    "empty": "",
    "trailing": '"{version}"x',
    "single quotes": "'{version}'",
    "quote inside": '"a"b"',
}


@pytest.fixture
def record(api: Api) -> Json:
    return api.added("a", b"old")


@pytest.fixture
def left_alone(api: Api, server: ServerProcess, record: Json) -> Iterator[Json]:
    """The record of a handle that is the same after the test, bytes and all."""
    with nothing_changed(api, server):
        yield record
    assert api.state("a").content == b"old"


@pytest.mark.parametrize("form", WRONG_FORMS.values(), ids=WRONG_FORMS)
def test_wrong_forms_are_refused_and_change_nothing(api: Api, left_alone: Json, form: str) -> None:
    sent = {"If-Match": form.format(version=left_alone["version"])}
    problem(api.call("PUT", "/handles/a", content=b"new", headers=sent), 422, "invalid-request")
    problem(api.call("DELETE", "/handles/a", headers=sent), 422, "invalid-request")
    problem(api.call("GET", "/handles/a/state", headers=sent), 422, "invalid-request")


def test_two_headers_are_refused(api: Api, left_alone: Json) -> None:
    tag = f'"{left_alone["version"]}"'
    headers = [("Milepost-Session", str(api.session)), ("If-Match", tag), ("If-Match", tag)]
    response = api.http.put(f"/v1/stores/{api.store}/handles/a", headers=headers, content=b"new")
    problem(response, 422, "invalid-request")


@pytest.mark.usefixtures("left_alone")
def test_replace_requires_it(api: Api) -> None:
    problem(api.call("PUT", "/handles/a", content=b"new"), 428, "precondition-required")


def test_replace_with_a_stale_one_names_the_current(api: Api, server: ServerProcess, record: Json) -> None:
    current = api.replace("a", record["version"]).json()["version"]
    with nothing_changed(api, server):
        for stale in (record["version"], "never-granted", current.upper() + "0"):
            assert problem(api.replace("a", stale), 412, "version-mismatch")["current"] == current


def test_remove_may_carry_it(api: Api, server: ServerProcess, record: Json) -> None:
    current = api.replace("a", record["version"]).json()["version"]
    with nothing_changed(api, server):
        stale = api.remove("a", If_Match=f'"{record["version"]}"')
        assert problem(stale, 412, "version-mismatch")["current"] == current
    assert api.remove("a", If_Match=f'"{current}"').json() == {"removed": True}
    assert api.remove("a", If_Match=f'"{current}"').json() == {"removed": True}


def test_a_state_is_read_at_that_version_only(api: Api, record: Json) -> None:
    tag = f'"{record["version"]}"'
    assert api.state("a", If_Match=tag).content == b"old"
    current = api.replace("a", record["version"]).json()["version"]
    assert problem(api.state("a", If_Match=tag), 412, "version-mismatch")["current"] == current
    assert api.state("a", If_Match=f'"{current}"').content == b"newer"


def test_a_version_is_not_used_again_for_a_name_that_was_removed(api: Api, record: Json) -> None:
    api.remove("a")
    again = api.added("a", b"old")
    assert again["version"] != record["version"]
    problem(api.replace("a", record["version"]), 412, "version-mismatch")

"""Small states are kept in their records: nobody sees a difference, but that there is no blob."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, connect, digest, problem
from tests.wire.support.damage import blob_files

BELOW = 1000
LIMIT = 5000


@pytest.fixture(scope="module")
def inlining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("inlining")
    flags = ("--inline-below", str(BELOW), "--max-state-bytes", str(LIMIT), "--linger", "0")
    with ServerProcess(directory, *flags) as process:
        yield process.start()


@pytest.fixture(scope="module")
def http(inlining: ServerProcess) -> Iterator[httpx.Client]:
    with connect(inlining.url) as client:
        yield client


def blobs(server: ServerProcess, api: Api) -> int:
    return sum(f"/{api.store}/" in key for key in blob_files(server))


@pytest.mark.parametrize("size", [0, 3, BELOW - 1, BELOW, LIMIT])
def test_a_state_is_read_as_it_was_written_whole_and_in_parts(inlining: ServerProcess, api: Api, size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    added = api.add("a", content)
    assert (added.json()["size"], added.json()["sha256"]) == (size, hashlib.sha256(content).hexdigest())
    assert blobs(inlining, api) == (size >= BELOW)
    for redirect in ({}, {"redirect": "true"}):
        answer = api.call("GET", "/handles/a/state", params=redirect)
        assert (answer.status_code, answer.content) == (200, content)
        assert answer.headers["repr-digest"] == digest(content)
        assert answer.headers["etag"] == added.headers["etag"]
    if size:
        part = api.call("GET", "/handles/a/state", headers={"Range": f"bytes=1-{size - 2}"})
        assert (part.status_code, part.content) == (206, content[1:-1])
    stale = api.call("GET", "/handles/a/state", headers={"If-Match": '"older"'})
    problem(stale, 412, "version-mismatch")


def test_states_grow_shrink_and_go(inlining: ServerProcess, api: Api) -> None:
    small, large = b"x" * (BELOW - 1), b"y" * BELOW
    api.added("a", small)
    api.added("b", small)
    for content in (large, small, large, small):
        now = api.get("b").json()["version"]
        assert api.replace("b", now, content).status_code == 200
        assert api.call("GET", "/handles/b/state").content == content
    inlining.wait_until(lambda: blobs(inlining, api) == 0, "replaced blobs go")
    assert api.remove("b").json() == {"removed": True}
    problem(api.get("b"), 404, "not-exist")
    assert api.add("b", large).status_code == 201
    assert api.remove("b").json() == {"removed": True}
    assert api.remove("a").json() == {"removed": True}


def test_what_is_wrong_with_a_body_is_said_of_small_ones_too(api: Api) -> None:
    wrong = api.call("POST", "/handles/a", content=b"v1", headers={"Content-Digest": digest(b"v2")})
    problem(wrong, 422, "digest-mismatch")
    problem(api.get("a"), 404, "not-exist")


def test_a_retry_gets_the_first_answer_and_other_bytes_do_not(api: Api) -> None:
    key = {"Idempotency-Key": "k"}
    first = api.call("POST", "/handles/a", content=b"v1", headers=key)
    again = api.call("POST", "/handles/a", content=b"v1", headers={**key, "Milepost-Attempt": "2"})
    assert again.headers["milepost-replayed"] == "true"
    assert again.json() == first.json()
    problem(api.call("POST", "/handles/a", content=b"v2", headers=key), 422, "idempotency-mismatch")


def test_they_outlive_the_server_and_a_flag_that_is_turned_off(inlining: ServerProcess, api: Api) -> None:
    api.add("a", b"small")
    inlining.stop()
    before, inlining.flags = inlining.flags, ("--inline-below", "0", *inlining.flags[2:])
    try:
        inlining.start()
        assert api.call("GET", "/handles/a/state").content == b"small"
        assert api.replace("a", api.get("a").json()["version"], b"small").status_code == 200
        assert blobs(inlining, api) == 1
        assert api.call("GET", "/handles/a/state").content == b"small"
    finally:
        inlining.stop()
        inlining.flags = before
        inlining.start()

"""``GET /{name}/state``: the bytes, whole or a range."""

from __future__ import annotations

import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, digest, problem
from tests.wire.support.damage import blob_file, unreachable

CONTENT = bytes(range(100))


@pytest.fixture
def version(api: Api) -> str:
    """Of the handle ``a``, whose state is `CONTENT`."""
    version: str = api.added("a", CONTENT)["version"]
    return version


def test_the_whole(api: Api, version: str) -> None:
    response = api.state("a")
    assert response.status_code == 200
    assert response.content == CONTENT
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-length"] == "100"
    assert response.headers["etag"] == f'"{version}"'
    assert response.headers["repr-digest"] == digest(CONTENT)
    assert response.headers["accept-ranges"] == "bytes"


RANGES = {
    "bytes=0-0": (0, 1),
    "bytes=10-19": (10, 20),
    "bytes=90-": (90, 100),
    "bytes=-7": (93, 100),
    "bytes=0-99": (0, 100),
    "bytes=0-": (0, 100),
    "bytes=-1000": (0, 100),
    "bytes=95-1000": (95, 100),
    "bytes=99-99": (99, 100),
}


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize(("asked", "span"), RANGES.items())
def test_ranges(api: Api, asked: str, span: tuple[int, int]) -> None:
    start, end = span
    response = api.state("a", Range=asked)
    assert response.status_code == 206
    assert response.content == CONTENT[start:end]
    assert response.headers["content-range"] == f"bytes {start}-{end - 1}/100"
    assert response.headers["content-length"] == str(end - start)
    assert response.headers["repr-digest"] == digest(CONTENT)


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=999999999999-"])
def test_ranges_that_lie_outside_are_416_with_the_size(api: Api, asked: str) -> None:
    response = api.state("a", Range=asked)
    problem(response, 416, "range-not-satisfiable")
    assert response.headers["content-range"] == "bytes */100"


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize(
    "asked", ["bytes=5-4", "lines=1-2", "bytes=", "bytes=a-b", "bytes=-", "nonsense", "bytes=0-1,3-4"]
)
def test_what_is_not_one_range_of_bytes_is_ignored(api: Api, asked: str) -> None:
    response = api.state("a", Range=asked)
    assert response.status_code == 200
    assert response.content == CONTENT


@pytest.mark.usefixtures("version")
def test_no_range_of_the_empty_state(api: Api) -> None:
    api.added("empty", b"")
    problem(api.state("empty", Range="bytes=0-"), 416, "range-not-satisfiable")


def test_if_match_and_a_range_together(api: Api, version: str) -> None:
    assert api.state("a", Range="bytes=1-2", If_Match=f'"{version}"').content == CONTENT[1:3]
    stale = api.state("a", Range="bytes=1-2", If_Match='"stale"')
    assert problem(stale, 412, "version-mismatch")["current"] == version


@pytest.mark.usefixtures("version")
def test_a_redirect_asked_of_blobs_that_cannot_sign_gives_the_bytes(api: Api) -> None:
    response = api.call("GET", "/handles/a/state", params={"redirect": "true"})
    assert response.status_code == 200
    assert response.content == CONTENT
    for value in ("false", "yes", "True", ""):
        response = api.call("GET", "/handles/a/state", params={"redirect": value})
        if value == "false":
            assert response.content == CONTENT
        else:
            problem(response, 422, "invalid-request")


def test_absent(api: Api) -> None:
    problem(api.state("absent"), 404, "not-exist")


# -- damage ------------------------------------------------------------------------------------------------------------

LARGE = 3 * 1024 * 1024


@pytest.mark.usefixtures("version")
def test_other_bytes_of_the_same_length_are_corrupt(api: Api, server: ServerProcess) -> None:
    blob_file(server, api.store, "a").write_bytes(CONTENT[::-1])
    problem(api.state("a"), 500, "corrupt")
    assert api.get("a").status_code == 200


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("content", [CONTENT[:-1], b"", CONTENT + b"x"], ids=["shorter", "empty", "longer"])
def test_bytes_of_another_length_are_corrupt(api: Api, server: ServerProcess, content: bytes) -> None:
    blob_file(server, api.store, "a").write_bytes(content)
    problem(api.state("a"), 500, "corrupt")
    problem(api.state("a", Range="bytes=0-1"), 500, "corrupt")


@pytest.mark.parametrize("size", [100, LARGE], ids=["small", "large"])
def test_bytes_that_are_gone(api: Api, server: ServerProcess, size: int) -> None:
    api.added("gone", b"x" * size)
    blob_file(server, api.store, "gone").unlink()
    problem(api.state("gone"), 410, "blob-missing")
    problem(api.state("gone", Range="bytes=1-2"), 410, "blob-missing")


@pytest.mark.usefixtures("version")
def test_bytes_that_cannot_be_reached(api: Api, server: ServerProcess) -> None:
    with unreachable(blob_file(server, api.store, "a").parent):
        document = problem(api.state("a"), 503, "storage-unavailable")
        assert document["retryable"] is True
    assert api.state("a").content == CONTENT


def test_bytes_that_cannot_be_written(api: Api, server: ServerProcess, version: str) -> None:
    before = api.everything()
    with unreachable(blob_file(server, api.store, "a").parent):
        problem(api.add("b"), 503, "storage-unavailable")
        problem(api.replace("a", version), 503, "storage-unavailable")
    assert api.everything() == before
    assert api.add("b").status_code == 201

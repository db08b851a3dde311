"""``/v1/stores/{store}/files``: files are written once, whole, under the epoch, and read, listed and deleted."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support import raw
from tests.wire.support.api import Api, Json, connect, digest, problem
from tests.wire.webhdfs.hadoop import Tree

SMALL, LARGE = b"a few bytes", bytes(range(256)) * 400
CONTENTS = {"in its record": SMALL, "a blob": LARGE, "empty": b""}


@pytest.fixture(params=list(CONTENTS))
def content(request: pytest.FixtureRequest) -> bytes:
    return CONTENTS[request.param]


@pytest.fixture
def driver(api: Api) -> Api:
    """Who holds the epoch. No call here names a session."""
    epoch = api.granted()
    return Api(api.http, api.store, None, epoch)


def put(api: Api, path: str, content: bytes | Iterator[bytes] = SMALL, **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.call("PUT", f"/files/{path}", content=content, headers=sent)


def listed(api: Api, under: str = "", **query: Any) -> Json:
    answer = api.call("GET", "/files", params={"under": under, **query})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def names(api: Api, under: str = "") -> list[str]:
    return [file["path"] for file in listed(api, under)["files"]]


def test_what_was_written_is_read_and_listed(driver: Api, content: bytes) -> None:
    made = put(driver, "a/b.delta", content, Content_Digest=digest(content))
    assert made.status_code == 201, made.text
    told = made.json()
    assert (told["path"], told["size"]) == ("a/b.delta", len(content))
    assert made.headers["etag"] == f'"{told["version"]}"'
    assert made.headers["repr-digest"] == digest(content)
    for method in ("GET", "HEAD"):
        read = driver.call(method, "/files/a/b.delta")
        assert (read.status_code, read.content) == (200, content if method == "GET" else b"")
        assert read.headers["content-length"] == str(len(content))
        assert (read.headers["etag"], read.headers["repr-digest"]) == (made.headers["etag"], digest(content))
        assert read.headers["last-modified"].endswith(" GMT")
    page = listed(driver, "a")
    (entry,) = page["files"]
    assert {name: entry[name] for name in told} == told
    assert (entry["directory"], entry["epoch"]) == (False, driver.epoch)
    age = datetime.fromisoformat(page["now"]) - datetime.fromisoformat(entry["modified"])
    assert 0.0 <= age.total_seconds() < 300.0
    (directory,) = listed(driver)["files"]
    assert (directory["path"], directory["directory"], directory["size"], directory["sha256"]) == ("a", True, 0, None)


def test_hadoop_sees_the_same_files(driver: Api, content: bytes) -> None:
    tree = Tree(driver.http, driver.store, driver.epoch)
    put(driver, "a/by rest%25", content)
    tree.create("a/by-hadoop", content)
    assert tree.names("a") == ["by rest%", "by-hadoop"]
    assert tree.read("a/by%20rest%25").content == content
    assert driver.call("GET", "/files/a/by-hadoop").content == content
    assert names(driver, "a") == ["a/by rest%", "a/by-hadoop"]


def test_a_file_is_replaced_unless_it_has_to_be_new(driver: Api, content: bytes) -> None:
    first = put(driver, "a", b"first", If_None_Match="*")
    problem(put(driver, "a", content, If_None_Match="*"), 409, "already-exists")
    assert driver.call("GET", "/files/a").content == b"first"
    second = put(driver, "a", content)
    assert (first.status_code, second.status_code) == (201, 200)
    assert driver.call("GET", "/files/a").content == content
    assert second.headers["etag"] != first.headers["etag"]
    stale = {"If-Match": first.headers["etag"]}
    now = second.json()["version"]
    assert problem(driver.call("GET", "/files/a", headers=stale), 412, "version-mismatch")["current"] == now
    assert driver.call("GET", "/files/a", headers={"If-Match": f'"{now}"'}).content == content


@pytest.mark.parametrize(
    ("asked", "span"), [("bytes=0-0", (0, 1)), ("bytes=3-6", (3, 7)), ("bytes=8-", (8, 11)), ("bytes=-2", (9, 11))]
)
@pytest.mark.parametrize("size", [1, 1000], ids=["in its record", "a blob"])
def test_a_part_is_read(driver: Api, asked: str, span: tuple[int, int], size: int) -> None:
    content = SMALL * size
    if asked in ("bytes=8-", "bytes=-2"):
        span = (span[0] if asked == "bytes=8-" else len(content) - 2, len(content))
    put(driver, "a", content)
    read = driver.call("GET", "/files/a", headers={"Range": asked})
    assert (read.status_code, read.content) == (206, content[slice(*span)])
    assert read.headers["content-range"] == f"bytes {span[0]}-{span[1] - 1}/{len(content)}"
    assert read.headers["repr-digest"] == digest(content)
    beyond = driver.call("GET", "/files/a", headers={"Range": f"bytes={len(content)}-"})
    problem(beyond, 416, "range-not-satisfiable")
    assert beyond.headers["content-range"] == f"bytes */{len(content)}"


def test_a_file_is_deleted_however_often(driver: Api) -> None:
    for path in ("d/a", "d/b/c"):
        put(driver, path)
    for _ in range(2):
        assert driver.call("DELETE", "/files/d/a").status_code == 204
    problem(driver.call("GET", "/files/d/a"), 404, "not-exist")
    problem(driver.call("DELETE", "/files/d"), 409, "not-empty")
    assert driver.call("DELETE", "/files/d", params={"recursive": "true"}).status_code == 204
    assert names(driver) == []
    problem(driver.call("GET", "/files", params={"under": "d"}), 404, "not-exist")


def test_a_directory_is_made_and_is_no_file(driver: Api) -> None:
    for status in (201, 200):
        made = driver.call("PUT", "/files/d/e", params={"directory": "true"})
        assert (made.status_code, made.json()) == (status, {"path": "d/e", "directory": True})
    assert names(driver, "d") == ["d/e"]
    problem(driver.call("GET", "/files/d"), 404, "not-exist")
    assert driver.call("HEAD", "/files/d").status_code == 404
    problem(put(driver, "d"), 409, "already-exists")
    put(driver, "f")
    problem(put(driver, "f/g"), 409, "not-directory")
    problem(driver.call("PUT", "/files/f", params={"directory": "true"}), 409, "not-directory")
    problem(driver.call("GET", "/files", params={"under": "f"}), 409, "not-directory")
    filled = driver.call("PUT", "/files/x", params={"directory": "true"}, content=b"bytes")
    problem(filled, 422, "invalid-request")


def test_a_long_directory_is_read_page_by_page(driver: Api) -> None:
    wanted = sorted(["ä", "a b", *(f"{number:02}" for number in range(7))])
    for name in wanted:
        put(driver, f"d/{name}")
    found, token = [], None
    for _ in range(5):
        page = listed(driver, "d", limit=2, **({} if token is None else {"token": token}))
        found += [file["path"] for file in page["files"]]
        assert len(page["files"]) <= 2
        token = page["next"]
    assert token is None
    assert found == [f"d/{name}" for name in wanted]
    for query in ({"limit": 0}, {"limit": 1001}, {"token": "no token"}, {"after": "x"}):
        problem(driver.call("GET", "/files", params={"under": "d", **query}), 422, "invalid-request")


def test_a_store_that_never_was_has_no_files(http: httpx.Client, store: str) -> None:
    assert listed(Api(http, store, None))["files"] == []
    problem(Api(http, store, None).call("GET", "/files/a"), 404, "not-exist")


def test_a_look_at_a_file_says_what_reading_it_would(driver: Api) -> None:
    first = put(driver, "a", b"first").headers["etag"]
    now = put(driver, "a", b"now").headers["etag"]
    asked: list[tuple[dict[str, str], dict[str, str], int]] = [
        ({"If-Match": now}, {}, 200),
        ({"If-Match": first}, {}, 412),
        ({"If-Match": "*"}, {}, 422),
        ({"Accept": "application/json"}, {}, 406),
        ({}, {"directory": "true"}, 422),
    ]
    for headers, query, status in asked:
        for method in ("GET", "HEAD"):
            answer = driver.call(method, "/files/a", headers=headers, params=query)
            assert (method, answer.status_code, answer.headers.get("etag")) == (
                method,
                status,
                now if status == 200 else None,
            )
            assert answer.content == b"" or method == "GET"


def test_a_condition_that_is_not_heeded_is_refused(driver: Api, content: bytes) -> None:
    """Ignored, it would let its sender overwrite or delete what it does not know of, or cut off a whole file."""
    put(driver, "a", b"stays")
    version = driver.call("HEAD", "/files/a").headers["etag"]
    for tag in (version, '"1.0"', "*"):
        problem(put(driver, "a", content, If_Match=tag), 422, "invalid-request")
        problem(driver.call("DELETE", "/files/a", headers={"If-Match": tag}), 422, "invalid-request")
    problem(put(driver, "a", content, Content_Range="bytes 3-4/10"), 422, "invalid-request")
    assert driver.call("GET", "/files/a").content == b"stays"
    made = driver.call("PUT", "/files/d", params={"directory": "true"}, headers={"If-None-Match": "*"})
    problem(made, 422, "invalid-request")
    assert names(driver) == ["a"]


def test_every_other_epoch_is_refused_by_its_code(api: Api, driver: Api, content: bytes) -> None:
    put(driver, "a", b"stays")
    for epoch in (None, 2, 99):
        for refused in (
            put(driver.under(epoch), "a", content),
            put(driver.under(epoch), "new", content, If_None_Match="*"),
            driver.under(epoch).call("DELETE", "/files/a"),
            driver.under(epoch).call("PUT", "/files/d", params={"directory": "true"}),
        ):
            assert problem(refused, 409, "fenced")["current"] == driver.epoch
    assert driver.call("GET", "/files/a").content == b"stays"
    api.resign()
    new = driver.under(api.other().granted())
    problem(put(driver, "a", content), 409, "fenced")
    assert put(new, "a", content).status_code == 200
    problem(put(driver.under(0), "a"), 422, "invalid-request")


def test_bytes_that_come_after_the_grant_of_the_next_epoch_are_refused(api: Api, driver: Api) -> None:
    """The fence is looked at again when the last byte has come."""

    def slow() -> Iterator[bytes]:
        yield LARGE
        api.resign()
        assert api.other().granted() == 2
        yield LARGE

    problem(put(driver, "late", slow()), 409, "fenced")
    problem(driver.call("GET", "/files/late"), 404, "not-exist")


def test_a_retry_gets_the_first_answer(driver: Api, content: bytes) -> None:
    once = driver.keyed("key", 1)
    first = put(once, "a", content, If_None_Match="*")
    again = put(driver.keyed("key", 2), "a", content, If_None_Match="*")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["milepost-replayed"] == "true"
    problem(put(driver.keyed("key", 2), "a", b"others", If_None_Match="*"), 422, "idempotency-mismatch")
    problem(put(driver.keyed("key", 2), "b", content), 422, "idempotency-mismatch")
    driver.call("DELETE", "/files/a")
    late = put(driver.keyed("key", 3), "a", content, If_None_Match="*")
    assert (late.json(), late.headers["milepost-replayed"]) == (first.json(), "true")
    problem(driver.call("GET", "/files/a"), 404, "not-exist")


def test_a_key_is_that_of_one_call_down_to_what_it_asks_for(driver: Api, content: bytes) -> None:
    """The first answer to another request would say of this one what is not so."""
    put(driver.keyed("new"), "a", content, If_None_Match="*")
    put(driver.keyed("any"), "b", content)
    problem(put(driver.keyed("new", 2), "a", content), 422, "idempotency-mismatch")
    problem(put(driver.keyed("any", 2), "b", content, If_None_Match="*"), 422, "idempotency-mismatch")
    put(driver, "d/c")
    retry = driver.keyed("gone", 2)
    assert driver.keyed("gone").call("DELETE", "/files/d/c").status_code == 204
    problem(retry.call("DELETE", "/files/d"), 422, "idempotency-mismatch")
    problem(retry.call("DELETE", "/files/d/c", params={"recursive": "true"}), 422, "idempotency-mismatch")
    problem(put(retry, "d/c"), 422, "idempotency-mismatch")
    assert driver.call("GET", "/files/a").content == driver.call("GET", "/files/b").content == content


@pytest.mark.parametrize("recursive", ["false", "true"])
def test_a_deletion_is_done_once_under_its_key(driver: Api, recursive: str) -> None:
    """Its answer was lost, and something new is at the path when it is sent again."""
    put(driver, "d/a", b"old")
    path, query = ("/files/d" if recursive == "true" else "/files/d/a"), {"recursive": recursive}
    first = driver.keyed("gone", 1).call("DELETE", path, params=query)
    assert (first.status_code, "milepost-replayed" in first.headers) == (204, False)
    put(driver, "d/a", b"new")
    again = driver.keyed("gone", 2).call("DELETE", path, params=query)
    assert (again.status_code, again.headers["milepost-replayed"]) == (204, "true")
    assert driver.call("GET", "/files/d/a").content == b"new"
    assert driver.keyed("other", 1).call("DELETE", path, params=query).status_code == 204
    problem(driver.call("GET", "/files/d/a"), 404, "not-exist")


def test_a_directory_is_made_once_under_its_key(driver: Api) -> None:
    made = [
        driver.keyed("made", number).call("PUT", "/files/d", params={"directory": "true"}).status_code
        for number in (1, 2)
    ]
    driver.call("DELETE", "/files/d")
    again = driver.keyed("made", 3).call("PUT", "/files/d", params={"directory": "true"})
    assert (*made, again.status_code, again.headers["milepost-replayed"]) == (201, 201, 201, "true")
    assert names(driver) == []


def test_keys_of_two_stores_have_nothing_to_do_with_each_other(driver: Api, http: httpx.Client, store: str) -> None:
    put(driver.keyed("1"), "a", b"here")
    elsewhere = Api.on(http, f"{store}-2")
    other = elsewhere.under(elsewhere.granted()).keyed("1")
    assert put(other, "a", b"there").status_code == 201
    assert other.call("GET", "/files/a").content == b"there"


def test_a_late_attempt_does_nothing(driver: Api) -> None:
    """It was overtaken, and something else is there by now."""
    put(driver, "a", b"old")
    assert driver.keyed("k", 2).call("DELETE", "/files/a").status_code == 204
    put(driver, "a", b"new")
    late = driver.keyed("k", 1).call("DELETE", "/files/a")
    problem(late, 503, "outcome-unknown", "unknown")
    assert driver.call("GET", "/files/a").content == b"new"


@pytest.mark.parametrize("said", [len(LARGE) + 1, len(LARGE) - 1])
def test_a_body_of_another_length_than_said_is_no_file(by_default: ServerProcess, said: int) -> None:
    """What is too much belongs to the next request, as everywhere in HTTP."""
    path = f"/v1/stores/lengths/files/{said}"
    with raw.connected(by_default.url) as connection:
        connection.sendall(raw.head("PUT", path, {"Content-Length": str(said)}) + LARGE)
        connection.shutdown(socket.SHUT_WR)
        if said < len(LARGE):
            assert raw.answer(connection).status_code == 201
        else:
            connection.recv(65536)
    with connect(by_default.url) as http:
        read = http.get(path)
    assert (read.status_code, read.content) == (200, LARGE[:said]) if said < len(LARGE) else read.status_code == 404


def test_a_body_with_another_digest_is_no_file(driver: Api, content: bytes) -> None:
    problem(put(driver, "a", content, Content_Digest=digest(content + b"x")), 422, "digest-mismatch")
    problem(driver.call("GET", "/files/a"), 404, "not-exist")


def test_many_bytes_come_in_chunks(driver: Api) -> None:
    def slow() -> Iterator[bytes]:
        for _ in range(5):
            time.sleep(0.02)
            yield LARGE

    assert put(driver, "a", slow()).json()["size"] == 5 * len(LARGE)
    assert driver.call("GET", "/files/a").content == LARGE * 5


@pytest.mark.parametrize(
    "path",
    [
        *("", "/a", "a/", "a//b", "a/./b", "a/../b", "..", "%2e%2e/x", "a%2f..%2fb", "a%2fb", "a%00b", "%ff", "a%7f"),
        *("x" * 1025, "/".join("x" * 33), "%ed%a0%80", "a%0ab"),
    ],
)
def test_a_path_that_no_file_can_have_is_refused(by_default: ServerProcess, path: str) -> None:
    for method in ("PUT", "GET", "DELETE", "HEAD"):
        with raw.connected(by_default.url) as connection:
            connection.sendall(raw.head(method, f"/v1/stores/paths/files/{path}", {"Content-Length": "0"}))
            answer = raw.answer(connection, method)
        assert answer.status_code == 422, (method, answer.text)
        assert method == "HEAD" or answer.json()["type"] == "urn:milepost:invalid-name"


def test_a_snapshot_is_read_and_never_written(api: Api, driver: Api) -> None:
    put(driver, "q/state/1", b"kept")
    put(driver, "q/commits/0")
    assert api.under(driver.epoch).call("PUT", "/tree/savepoints/p", json={}).status_code == 200
    put(driver, "q/state/1", b"newer")
    driver.call("DELETE", "/files/q/commits/0")
    assert names(driver, ".snapshot/p/q") == [".snapshot/p/q/commits", ".snapshot/p/q/state"]
    assert driver.call("GET", "/files/.snapshot/p/q/state/1").content == b"kept"
    assert ".snapshot" not in names(driver)
    problem(put(driver, ".snapshot/p/q/state/2"), 403, "forbidden")
    problem(driver.call("DELETE", "/files/.snapshot/p", params={"recursive": "true"}), 403, "forbidden")
    problem(driver.call("GET", "/files/.snapshot/none/q"), 404, "not-exist")

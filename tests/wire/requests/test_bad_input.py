"""Bad input: each with a clear problem, and nothing changed. Bodies that are cut short have a module of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support import raw
from tests.wire.support.api import Api, Json, connect, digest, problem
from tests.wire.support.damage import blob_files

LIMIT = 100_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One whose revision nothing moves but these tests, and which takes states up to `LIMIT`."""
    with ServerProcess(tmp_path_factory.mktemp("bad-input"), "--max-state-bytes", str(LIMIT)) as process:
        yield process.start()


@pytest.fixture(scope="module")
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with connect(server.url) as client:
        yield client


@pytest.fixture
def unmoved(api: Api, server: ServerProcess) -> Iterator[Json]:
    """A handle ``there``. Afterwards everything is as it was: records, epoch, session, revision and files."""
    record = api.added("there", b"old")
    before, revision, blobs = api.everything(), api.revision(), blob_files(server)
    yield record
    assert (api.everything(), api.revision()) == (before, revision)
    assert api.state("there").content == b"old"
    server.wait_until(lambda: blob_files(server) == blobs, "something lies among the blobs")


# -- names -------------------------------------------------------------------------------------------------------------

NAMES = {
    "dots": "..",
    "one dot": ".",
    "encoded dots": "%2e%2e",
    "escape": "..%2Fx",
    "escape twice encoded": "..%252Fx",
    "encoded slash": "a%2Fb",
    "absolute": "%2Fetc%2Fpasswd",
    "backslash": "..%5Cx",
    "leading dot": ".hidden",
    "300 characters": "n" * 300,
    "201 characters": "n" * 201,
    "NUL": "a%00b",
    "newline": "a%0Ab",
    "trailing newline": "a%0A",
    "blank": "a%20b",
    "plus": "a+b",
    "emoji": quote("\N{GRINNING FACE}"),
    "umlaut": quote("käse"),
    "full-width letter": quote("\uff41"),
    "no UTF-8": "%ff%fe",
    "half an escape": "a%2",
    "colon": "a:b",
    "tilde": "~a",
    "unit separator": "a%1Fb",
}


def all_refused(server: ServerProcess, *requests: bytes) -> None:
    """Each is answered that its name is not allowed, on one connection."""
    with raw.connected(server.url) as connection:
        for response in raw.talk(connection, *requests):
            problem(response, 422, "invalid-name")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_of_handles(api: Api, server: ServerProcess, unmoved: Json, name: str) -> None:
    acting = {"Milepost-Session": str(api.session)}
    target = f"/v1/stores/{api.store}/handles/{name}"
    body = {**acting, "Content-Length": "3", "If-Match": f'"{unmoved["version"]}"'}
    stored = [raw.head(method, target, body) + b"abc" for method in ("POST", "PUT")]
    calls = [("GET", ""), ("DELETE", ""), ("GET", "/state"), ("POST", "/lock"), ("DELETE", "/lock")]
    all_refused(server, *stored, *(raw.head(method, target + path, acting) for method, path in calls))
    assert raw.ask(server.url, raw.head("HEAD", target)).status_code == 422


@pytest.mark.usefixtures("unmoved")
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_of_stores_and_sessions(api: Api, server: ServerProcess, name: str) -> None:
    acting = {"Milepost-Session": str(api.session)}
    stored = raw.head("POST", f"/v1/stores/{name}/handles/a", {**acting, "Content-Length": "3"}) + b"abc"
    calls = [("POST", "/locks"), ("DELETE", "/locks"), ("GET", "/handles"), ("DELETE", "/handles"), ("GET", "/epoch")]
    calls += [("POST", "/epoch"), ("DELETE", "/epoch"), ("GET", "/events"), ("POST", "/uploads")]
    of_stores = [raw.head(method, f"/v1/stores/{name}{path}", acting) for method, path in calls]
    calls = [("GET", ""), ("DELETE", ""), ("POST", "/keepalive")]
    of_sessions = [raw.head(method, f"/v1/sessions/{name}{path}") for method, path in calls]
    all_refused(server, stored, *of_stores, *of_sessions)


@pytest.mark.usefixtures("unmoved")
def test_empty_names(api: Api, server: ServerProcess) -> None:
    acting = {"Milepost-Session": str(api.session)}
    targets = [f"/v1/stores/{api.store}/handles/", "/v1/stores//handles/a", "/v1/stores//epoch", "/v1/sessions/"]
    all_refused(server, *(raw.head("DELETE", target, acting) for target in targets))


@pytest.mark.usefixtures("unmoved")
@pytest.mark.parametrize("target", ["/v1/stores/{s}/../../../etc/passwd", "/v1/stores/{s}/handles/../../x/handles/a"])
def test_paths_that_climb(api: Api, server: ServerProcess, target: str) -> None:
    request = raw.head("POST", target.format(s=api.store), {"Milepost-Session": str(api.session)})
    assert raw.ask(server.url, request).status_code in (404, 422)


# -- bodies ------------------------------------------------------------------------------------------------------------

SESSIONS: dict[str, Any] = {
    "ttl negative": {"ttl": -1, "holder": "h"},
    "ttl zero": {"ttl": 0, "holder": "h"},
    "ttl too short": {"ttl": 0.999, "holder": "h"},
    "ttl too long": {"ttl": 3600.001, "holder": "h"},
    "ttl huge": {"ttl": 1e300, "holder": "h"},
    "ttl text": {"ttl": "15", "holder": "h"},
    "ttl boolean": {"ttl": True, "holder": "h"},
    "ttl null": {"ttl": None, "holder": "h"},
    "ttl list": {"ttl": [15], "holder": "h"},
    "no ttl": {"holder": "h"},
    "holder number": {"ttl": 15, "holder": 7},
    "holder null": {"ttl": 15, "holder": None},
    "holder too long": {"ttl": 15, "holder": "h" * 100_00},
    "holder with a line": {"ttl": 15, "holder": "a\nb"},
    "session number": {"ttl": 15, "holder": "h", "session": 7},
    "unknown field": {"ttl": 15, "holder": "h", "lease": 1},
    "field of another case": {"TTL": 15, "ttl": 15, "holder": "h"},
    "empty object": {},
    "list": [{"ttl": 15, "holder": "h"}],
    "text": "ttl",
    "number": 15,
    "null": None,
}
NOT_JSON: dict[str, bytes] = {
    "nothing": b"",
    "NaN": b'{"ttl": NaN, "holder": "h"}',
    "Infinity": b'{"ttl": Infinity, "holder": "h"}',
    "number beyond all": b'{"ttl": 1e999, "holder": "h"}',
    "cut": b'{"ttl": 15, "holder": "h"',
    "two": b'{"ttl": 15, "holder": "h"}{}',
    "trailing comma": b'{"ttl": 15, "holder": "h",}',
    "single quotes": b"{'ttl': 15, 'holder': 'h'}",
    "no UTF-8": b'{"ttl": 15, "holder": "\xff"}',
    "UTF-16": json.dumps({"ttl": 15, "holder": "h"}).encode("utf-16"),
    "lone surrogate": b'{"ttl": 15, "holder": "\\ud800"}',
    "form": b"ttl=15&holder=h",
    "deep": b"[" * 50_000,
    "one member twice": b'{"ttl": 15, "holder": "h", "ttl": 15}',
    "one member twice, escaped": b'{"ttl": 15, "holder": "h", "\\u0074tl": 30}',
}


@pytest.mark.usefixtures("unmoved")
@pytest.mark.parametrize("body", SESSIONS.values(), ids=SESSIONS)
def test_sessions(http: httpx.Client, body: Any) -> None:
    headers = {"Content-Type": "application/json"}
    problem(http.post("/v1/sessions", content=json.dumps(body), headers=headers), 422, "invalid-request")


@pytest.mark.usefixtures("unmoved")
@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
def test_sessions_that_are_no_json(http: httpx.Client, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    problem(http.post("/v1/sessions", content=body, headers=headers), 422, "invalid-request")


@pytest.mark.usefixtures("unmoved")
@pytest.mark.parametrize("session", ["", "..", "../x", "a/b", ".a", "a b", "s" * 201, "\N{GRINNING FACE}", "a\0"])
def test_sessions_of_a_bad_name(http: httpx.Client, session: str) -> None:
    problem(http.post("/v1/sessions", json={"ttl": 15, "holder": "h", "session": session}), 422, "invalid-name")


WAITS: dict[str, Any] = {
    "negative": {"wait": -0.1},
    "too long": {"wait": 60.5},
    "boolean": {"wait": False},
    "text": {"wait": "1"},
    "null": {"wait": None},
    "unknown field": {"wait": 0, "holder": "h"},
    "list": [],
    "number": 0,
}


@pytest.mark.usefixtures("unmoved")
@pytest.mark.parametrize("body", WAITS.values(), ids=WAITS)
def test_campaigns(api: Api, body: Any) -> None:
    problem(api.call("POST", "/epoch", json=body), 422, "invalid-request")


@pytest.mark.usefixtures("unmoved")
@pytest.mark.parametrize("body", [b'{"wait": NaN}', b"{", b"wait", b'{"wait": 1e999}', b'{"wait": 0, "wait": 0}'])
def test_campaigns_that_are_no_json(api: Api, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    problem(api.call("POST", "/epoch", content=body, headers=headers), 422, "invalid-request")


WITHOUT_BODY = [
    ("POST", "/v1/sessions/{session}/keepalive"),
    ("DELETE", "/v1/sessions/{session}"),
    ("POST", "/v1/stores/{store}/handles/there/lock"),
    ("DELETE", "/v1/stores/{store}/handles/there/lock"),
    ("DELETE", "/v1/stores/{store}/handles/there"),
    ("DELETE", "/v1/stores/{store}/handles"),
    ("POST", "/v1/stores/{store}/locks"),
    ("DELETE", "/v1/stores/{store}/locks"),
    ("DELETE", "/v1/stores/{store}/epoch"),
]
each_call_without_body = pytest.mark.parametrize(("method", "path"), WITHOUT_BODY)


@pytest.mark.usefixtures("unmoved")
@each_call_without_body
def test_fields_for_a_call_that_takes_none(api: Api, method: str, path: str) -> None:
    target = path.format(session=api.session, store=api.store)
    headers = {"Milepost-Session": str(api.session), "Content-Type": "application/json"}
    for body in (b'{"ttl": 9}', b"[]", b"null", b"9", b"{", b"{}{}", b"ttl=9"):
        for content in (body, iter([body])):
            response = api.http.request(method, target, headers=headers, content=content)
            problem(response, 422, "invalid-request")
    problem(api.http.request(method, target, headers=headers, content=b"x" * 200_000), 413, "too-large")


@each_call_without_body
def test_no_field_at_all_is_what_such_a_call_takes(api: Api, method: str, path: str) -> None:
    """No body, one of no length, as a form for what curl sends with an empty -d, and an object without members."""
    forms: list[tuple[dict[str, str], bytes | None]] = [
        ({}, None),
        ({"Content-Length": "0"}, None),
        ({"Content-Type": "application/x-www-form-urlencoded", "Content-Length": "0"}, b""),
        ({"Transfer-Encoding": "chunked"}, b""),
        ({"Content-Type": "application/json"}, b"{}"),
    ]
    for headers, content in forms:
        acting = api.other()
        acting.add("there")
        target = path.format(session=acting.session, store=api.store)
        sent = {"Milepost-Session": str(acting.session), **headers}
        assert api.http.request(method, target, headers=sent, content=content).status_code in (200, 204)


@pytest.mark.usefixtures("unmoved")
def test_json_beyond_all(api: Api, http: httpx.Client) -> None:
    body = {"ttl": 15, "holder": "h" * 1_000_000}
    problem(http.post("/v1/sessions", json=body), 413, "too-large")
    problem(api.call("POST", "/epoch", json={"wait": 0, "x": "y" * 1_000_000}), 413, "too-large")


# -- states ------------------------------------------------------------------------------------------------------------


def test_too_large_states(api: Api, unmoved: Json) -> None:
    for content in (b"x" * (LIMIT + 1), iter([b"x" * LIMIT, b"x"])):
        document = problem(api.add("a", content), 413, "too-large")
        assert str(LIMIT) in document["detail"]
    problem(api.replace("there", unmoved["version"], b"x" * (LIMIT + 1)), 413, "too-large")


def test_the_largest_state(api: Api) -> None:
    assert api.added("a", b"x" * LIMIT)["size"] == LIMIT


@pytest.mark.parametrize(("method", "name"), [("POST", "a"), ("PUT", "there")])
def test_too_large_is_said_before_the_body_is_sent(
    api: Api, server: ServerProcess, unmoved: Json, method: str, name: str
) -> None:
    headers = {"Milepost-Session": str(api.session), "Content-Length": str(10**12), "Expect": "100-continue"}
    match = {} if method == "POST" else {"If-Match": f'"{unmoved["version"]}"'}
    request = raw.head(method, f"/v1/stores/{api.store}/handles/{name}", {**headers, **match})
    problem(raw.ask(server.url, request), 413, "too-large")


def test_bytes_that_are_not_those_announced(api: Api, unmoved: Json) -> None:
    wrong = digest(b"other")
    problem(api.add("a", b"bytes", Content_Digest=wrong), 422, "digest-mismatch")
    problem(api.add("a", b"", Content_Digest=wrong), 422, "digest-mismatch")
    problem(api.replace("there", unmoved["version"], b"bytes", Content_Digest=wrong), 422, "digest-mismatch")


def test_an_ended_session(api: Api) -> None:
    version = api.added("there")["version"]
    ended = api.other()
    api.http.delete(f"/v1/sessions/{ended.session}")
    before = api.everything(), api.revision()
    answers = [ended.add("a"), ended.replace("there", version), ended.remove("there"), ended.clear()]
    answers += [ended.lock("there"), ended.release("there"), ended.lock_all(), ended.release_all()]
    for response in [*answers, ended.campaign(), ended.resign()]:
        problem(response, 410, "session-expired")
    assert (api.everything(), api.revision()) == before

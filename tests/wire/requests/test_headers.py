"""The table of headers, a row at a time; keys and labels have modules of their own."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support import raw
from tests.wire.support.api import Api, digest, problem
from tests.wire.support.unchanged import nothing_changed

CHANGING = [
    ("POST", "/handles/a"),
    ("PUT", "/handles/a"),
    ("DELETE", "/handles/a"),
    ("POST", "/handles/a/lock"),
    ("DELETE", "/handles/a/lock"),
    ("DELETE", "/handles"),
    ("POST", "/locks"),
    ("DELETE", "/locks"),
    ("POST", "/epoch"),
    ("DELETE", "/epoch"),
]
READING = [
    ("HEAD", "/handles/a"),
    ("GET", "/handles/a"),
    ("GET", "/handles/a/state"),
    ("GET", "/handles"),
    ("GET", "/epoch"),
]


@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_session_is_required_on_every_changing_call_on_a_store(
    api: Api, server: ServerProcess, method: str, path: str
) -> None:
    api.added("a")
    nobody = replace(api, session=None)
    with nothing_changed(api, server):
        problem(nobody.call(method, path, headers={"If-Match": '"v"'}), 400, "session-required")


@pytest.mark.parametrize(("method", "path"), READING)
def test_session_is_optional_on_reads(api: Api, method: str, path: str) -> None:
    api.added("a")
    assert replace(api, session=None).call(method, path).status_code == 200
    assert api.call(method, path).status_code == 200


@pytest.mark.parametrize("given", ["", "../x", "a b", "x" * 201, ".hidden"])
def test_session_that_is_no_name_is_refused(api: Api, server: ServerProcess, given: str) -> None:
    tried = replace(api, session=given)
    version = api.added("there")["version"]
    with nothing_changed(api, server):
        for response in (tried.add("a"), tried.replace("there", version), tried.remove("there"), tried.lock_all()):
            problem(response, 422, "invalid-name")


def test_session_given_twice_is_refused(api: Api, http: httpx.Client, server: ServerProcess) -> None:
    other = api.other()
    api.added("a")
    headers = [("Milepost-Session", str(other.session)), ("Milepost-Session", str(api.session))]
    with nothing_changed(api, server), nothing_changed(other, server):
        problem(http.post(f"/v1/stores/{api.store}/locks", headers=headers), 422, "invalid-request")


@pytest.mark.parametrize("given", ["0", "one", "1.0", "-1", "+1", "1 2", "1e3", "0x1", "", "9" * 30, "\u0663".encode()])
def test_epoch_takes_a_whole_number(api: Api, http: httpx.Client, server: ServerProcess, given: str | bytes) -> None:
    headers: Any = {"Milepost-Session": api.session, "Milepost-Epoch": given}
    api.added("there")
    path = f"/v1/stores/{api.store}/handles"
    with nothing_changed(api, server):
        problem(http.post(f"{path}/a", headers=headers, content=b"x"), 422, "invalid-request")
        problem(http.delete(f"{path}/there", headers=headers), 422, "invalid-request")
        problem(http.delete(path, headers=headers), 422, "invalid-request")


@pytest.mark.parametrize("given", ["zero", "0", "-1", "1.5", ""])
def test_attempt_counts_from_one(api: Api, server: ServerProcess, given: str) -> None:
    with nothing_changed(api, server):
        tried = api.with_headers({"Idempotency-Key": "k", "Milepost-Attempt": given})
        problem(tried.add("a"), 422, "invalid-request")
        problem(tried.lock_all(), 422, "invalid-request")


def test_attempt_goes_with_a_key(api: Api, server: ServerProcess) -> None:
    api.added("there")
    tried = api.with_headers({"Milepost-Attempt": "1"})
    with nothing_changed(api, server):
        for response in (tried.add("a"), tried.remove("there"), tried.release("there"), tried.campaign()):
            problem(response, 422, "invalid-request")
        body = {"ttl": 600, "holder": "h", "session": f"of-{api.store}"}
        opened = api.http.post("/v1/sessions", json=body, headers={"Milepost-Attempt": "2"})
        problem(opened, 422, "invalid-request")
        problem(api.http.get(f"/v1/sessions/of-{api.store}"), 404, "session-unknown")


def test_content_digest_is_checked(api: Api) -> None:
    assert api.add("right", b"bytes", Content_Digest=digest(b"bytes")).status_code == 201
    both = f"sha-512=:{'A' * 86}==:, {digest(b'bytes')}"
    assert api.add("one-of-two", b"bytes", Content_Digest=both).status_code == 201
    problem(api.add("wrong", b"bytes", Content_Digest=digest(b"other")), 422, "digest-mismatch")
    assert api.exists("wrong").status_code == 404


@pytest.mark.parametrize(
    "given",
    [
        *["", "sha-256", "sha-256=", "sha-256=::", "sha-256=:AAAA:", "sha-256=:****:", "sha-256=abc", "md5=:AAAA:"],
        b"sha-256=:" + b"\xfc" * 44 + b":",
    ],
)
def test_content_digest_that_names_no_sha256_is_refused(api: Api, server: ServerProcess, given: Any) -> None:
    version = api.added("there")["version"]
    with nothing_changed(api, server):
        problem(api.add("a", Content_Digest=given), 422, "invalid-request")
        problem(api.replace("there", version, Content_Digest=given), 422, "invalid-request")


def test_content_digest_is_checked_on_replace_before_the_pointer_moves(api: Api) -> None:
    version = api.added("a", b"old")["version"]
    response = api.replace("a", version, b"new", Content_Digest=digest(b"old"))
    problem(response, 422, "digest-mismatch")
    assert api.state("a").content == b"old"
    assert api.replace("a", version, b"new", Content_Digest=digest(b"new")).status_code == 200


def test_etag_is_the_quoted_version_on_answers_about_one_handle(api: Api) -> None:
    added = api.add("a")
    version = added.json()["version"]
    tag = f'"{version}"'
    for response in (
        added,
        api.exists("a"),
        api.get("a"),
        api.lock("a"),
        api.state("a"),
        api.state("a", Range="bytes=1-2"),
    ):
        assert response.headers["etag"] == tag
    replaced = api.replace("a", version)
    assert replaced.headers["etag"] == f'"{replaced.json()["version"]}"' != tag


def test_repr_digest_is_of_the_whole_state_also_on_a_range(api: Api) -> None:
    content = bytes(range(256))
    api.added("a", content)
    whole, part = api.state("a"), api.state("a", Range="bytes=10-19")
    assert (whole.status_code, part.status_code) == (200, 206)
    assert part.content == content[10:20]
    assert whole.headers["repr-digest"] == part.headers["repr-digest"] == digest(content)
    assert hashlib.sha256(content).hexdigest() == api.get("a").json()["sha256"]


def test_revision_stands_on_every_answer_about_a_store_and_only_rises(api: Api) -> None:
    nobody = replace(api, session=None)
    version = '"none"'
    answers = [api.add("a"), api.add("a"), api.get("a"), api.get("absent"), api.exists("a"), api.exists("absent")]
    answers += [api.lock("a"), api.lock("absent"), api.release("a"), api.state("a"), api.state("absent")]
    answers += [
        api.state("a", Range="bytes=99-"),
        api.state("a", If_Match=version),
        api.handles(),
        api.handles(limit=0),
    ]
    answers += [api.call("PUT", "/handles/a", content=b""), api.replace("a", "stale"), nobody.add("b")]
    answers += [api.lock_all(), api.release_all(), api.campaign(), api.current(), api.resign(), api.add("x")]
    answers += [api.remove("a"), api.remove("absent"), api.clear(), api.handles(), api.add(".bad")]
    revisions = [int(answer.headers["milepost-revision"]) for answer in answers]
    assert revisions == sorted(revisions)
    assert revisions[0] > 0
    assert revisions[-1] > revisions[0]


def test_each_change_raises_the_revision(api: Api) -> None:
    first = api.add("a")
    changes = [first, api.replace("a", first.json()["version"]), api.release("a"), api.lock("a"), api.remove("a")]
    revisions = [int(change.headers["milepost-revision"]) for change in changes]
    assert revisions == sorted(set(revisions))


def test_term_stands_on_every_answer(api: Api, http: httpx.Client) -> None:
    term = api.get("absent").headers["milepost-term"]
    assert int(term) > 0
    paths = [
        "/livez",
        "/readyz",
        "/leader",
        "/metrics",
        "/docs",
        "/openapi.json",
        "/",
        "/page/main.js",
        "/v1/status",
        "/v1/stores",
        "/nowhere",
    ]
    for path in [*paths, "/v1/nowhere", f"/v1/sessions/{api.session}", f"/v1/stores/{api.store}/handles"]:
        answer = http.get(path)
        assert answer.headers["milepost-term"] == term, path
        assert answer.headers.get_list("cache-control") == ["no-store"], path
    assert http.get("/v1/status").json()["term"] == int(term)


def test_blanks_around_a_value_are_not_a_part_of_it(api: Api, server: ServerProcess) -> None:
    """RFC 9110, section 5.5."""
    headers = {
        "Milepost-Session": f" \t{api.session} \t",
        "Milepost-Label-team": "  night shift\t ",
        "Idempotency-Key": "k\t",
        "Content-Digest": f"{digest(b'hello')} ",
        "Content-Length": "5 ",
        "Expect": "100-continue ",
    }
    with raw.connected(server.url) as connection:
        connection.sendall(raw.head("POST", f"/v1/stores/{api.store}/handles/a", headers))
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"hello")
        added = raw.answer(connection, "POST")
    assert added.status_code == 201, added.text
    assert added.json()["labels"] == {"team": "night shift"}
    again = api.with_headers({"Idempotency-Key": "k", "Milepost-Attempt": "2"})
    assert again.add("a", b"hello", Milepost_Label_team="night shift").headers["milepost-replayed"] == "true"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_who_speaks_http_1_0_knows_no_continue(server: ServerProcess, api: Api, version: str) -> None:
    """RFC 9110, section 10.1.1: it would be taken for the answer."""
    headers = {"Milepost-Session": str(api.session), "Content-Length": "1", "Expect": "100-continue"}
    request = raw.head("POST", f"/v1/stores/{api.store}/handles/a", headers)
    with raw.connected(server.url) as connection:
        connection.sendall(request.replace(b"HTTP/1.1", f"HTTP/{version}".encode()) + b"x")
        first = connection.recv(12)
    assert first == (b"HTTP/1.1 201" if version == "1.0" else b"HTTP/1.1 100"), first


def test_a_body_of_two_types_is_refused(api: Api, server: ServerProcess) -> None:
    body = b'{"ttl": 60, "session": "of-two-types"}'
    fields = "application/json\r\nContent-Type: text/plain"
    request = raw.head("POST", "/v1/sessions", {"Content-Type": fields, "Content-Length": str(len(body))}) + body
    problem(raw.ask(server.url, request), 422, "invalid-request")
    problem(api.http.get("/v1/sessions/of-two-types"), 404, "session-unknown")


NO_REQUESTS = [
    b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /v1/stores HTTP/9.9\r\n\r\n",
    b"GET /v1/stores\r\n\r\n",
    b"get /v1/stores HTTP/1.1\r\nHost: milepost\r\n\r\n",
    b"GET /v1/stores HTTP/1.1\r\nHost milepost\r\n\r\n",
    b"GET /v1/sto res HTTP/1.1\r\nHost: milepost\r\n\r\n",
    b"GET /v1/stores HTTP/1.1\r\nHost: mile\x00post\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: milepost\r\n\r\n",
    b"TRACE /v1/stores HTTP/1.1\r\nHost: milepost\r\n\r\n",
    b"CONNECT milepost:443 HTTP/1.1\r\nHost: milepost\r\n\r\n",
    b"GET http://milepost/v1/status HTTP/1.1\r\nHost: milepost\r\n\r\n",
    b"GET /%ff%00 HTTP/1.1\r\nHost: milepost\r\n\r\n",
    b"GET /livez HTTP/1.0\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: milepost\r\nContent-Length: many\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: milepost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    b"POST /v1/sessions HTTP/1.1\r\nHost: milepost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
]


@pytest.mark.parametrize("sent", NO_REQUESTS, ids=lambda sent: repr(sent[:45]))
def test_term_stands_once_on_the_answer_to_whatever_is_sent(server: ServerProcess, sent: bytes) -> None:
    """By it a client tells the service's own answers from those of what stands between."""
    answer = raw.ask(server.url, sent)
    (term,) = answer.headers.get_list("milepost-term")
    assert int(term) > 0
    assert answer.headers.get_list("cache-control") == ["no-store"]


def test_request_id_is_echoed_and_logged(api: Api, server: ServerProcess) -> None:
    sent = f"asked-by:{api.store}/1"
    answers = [
        api.with_headers({"X-Request-Id": sent}).add("a"),
        api.with_headers({"X-Request-Id": sent}).get("absent"),
    ]
    assert [answer.headers["x-request-id"] for answer in answers] == [sent, sent]
    server.wait_for_log(sent)
    lines = [line for line in server.logged().splitlines() if sent in line]
    assert any("POST" in line and " 201 " in line for line in lines), lines


@pytest.mark.parametrize("given", [None, "", "x" * 129, "a b"])
def test_request_id_is_made_where_none_fit_for_a_log_line_is_given(
    api: Api, server: ServerProcess, given: str | None
) -> None:
    asked = api if given is None else api.with_headers({"X-Request-Id": given})
    made = [asked.get("absent").headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    assert given not in made
    for each in made:
        server.wait_for_log(each)


def test_no_request_can_write_log_lines_of_its_own(api: Api, http: httpx.Client, server: ServerProcess) -> None:
    mark = f"forged-{api.store}"
    problem(http.get(f"/v1/stores/x%0a{mark}/handles"), 422, "invalid-name")
    server.wait_for_log(mark)
    assert not any(line.startswith(mark) for line in server.logged().splitlines())


def test_a_part_is_no_state(api: Api, server: ServerProcess) -> None:
    """Taken for the whole, it would cut off what is there."""
    version = api.added("there", b"all of it")["version"]
    with nothing_changed(api, server):
        for name in ("there", "new"):
            problem(api.add(name, b"of", Content_Range="bytes 4-5/9"), 422, "invalid-request")
        problem(api.replace("there", version, b"of", Content_Range="bytes 4-5/9"), 422, "invalid-request")
    assert api.state("there").content == b"all of it"

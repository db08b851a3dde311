"""CREATE with ``data=true`` takes the bytes with the request. The usual form goes the short way, with the answers of
the routes; see `twins`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from milepost_server.http.connection import protocol
from tests.support.servers.replicas import PROMPT
from tests.wire.support import raw
from tests.wire.support.api import Api
from tests.wire.support.in_process import in_process
from tests.wire.webhdfs.hadoop import Tree, refused
from tests.wire.webhdfs.twins import BYTES, JAVA, JOB, READER, STRANGER, Clients, Request, in_two, pair, write

NEW = "op=CREATE&data=true&overwrite=false&key=key-{}&attempt=1"
INSIDE = NEW.replace("&overwrite", "&createparent=false&overwrite")
OVER = NEW.replace("false", "true")
BLOB = b"x" * 5000
NOBODY: dict[str, str] = {}


def whole(
    query: str = OVER, path: str = "checkpoint/.{}.tmp", body: bytes = BYTES, headers: dict[str, str] | None = None
) -> Request:
    """Write the file of a name; its name takes the place of ``{}`` in path and query."""
    return lambda tree, name: write(tree, path.format(name), query.format(name), body, headers)


def there(path: str) -> Request:
    """Write a file that is there, unless the request is refused."""

    def request(tree: Tree, name: str) -> bytes:
        assert tree.create(path.format(name), b"v1", overwrite=True).status_code == 201
        return whole(OVER, path)(tree, name)

    return request


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n", extension: bytes = b"", path: str = "a/{}") -> Request:
    """Write a file whose bytes come in chunks."""

    def request(tree: Tree, name: str) -> bytes:
        told = {**JAVA, **tree.told(), "Transfer-Encoding": "chunked"}
        head = raw.head("PUT", f"/webhdfs/v1/jobs/{JOB}/{path.format(name)}?{OVER.format(name)}", told)
        return head + b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks) + end

    return request


def framed(request: Request, length: bytes) -> Request:
    """The same request with another ``Content-Length``, and perhaps more behind it."""
    said = b"Content-Length: %d" % len(BYTES)
    return lambda tree, name: request(tree, name).replace(said, b"Content-Length: " + length)


USUAL: dict[str, tuple[Request, int]] = {
    "a new file": (whole(NEW), 201),
    "a file in a new directory": (whole(NEW, "new-{}/a/b"), 201),
    "a file in a directory that is there": (whole(INSIDE, "checkpoint/{}"), 201),
    "a file in no directory": (whole(INSIDE, "new-{}/a"), 404),
    "a new file that may replace one": (whole(OVER), 201),
    "a file in place of one": (there("a/{}"), 201),
    "nothing": (whole(body=b""), 201),
    "one byte": (whole(body=b"x"), 201),
    "the most bytes of a small file": (whole(body=BLOB[:4095]), 201),
    "a length of small letters": (lambda tree, name: whole()(tree, name).replace(b"Content-L", b"content-l"), 201),
    "a length with zeros before it": (framed(whole(), b"0%d" % len(BYTES)), 201),
    "bytes of a type": (whole(headers={"Content-Type": "application/octet-stream"}), 201),
    "bytes in one chunk": (chunked(BYTES), 201),
    "what looks like an end": (chunked(b"\r\n0\r\n\r\n"), 201),
    "a file that is there": (whole(NEW, "checkpoint/commits/0"), 403),
    "a file below a file": (whole(OVER, "checkpoint/commits/0/{}"), 403),
    "a file in place of a directory": (whole(OVER, "checkpoint"), 403),
    "a snapshot": (whole(OVER, ".snapshot/@1/a"), 403),
}


@pytest.mark.parametrize(("request_", "status"), USUAL.values(), ids=USUAL)
def test_a_usual_file_goes_the_short_way(
    clients: Clients, names: Iterator[str], request_: Request, status: int
) -> None:
    assert pair(clients, request_, names) == (status, True, 200)


UNUSUAL: dict[str, tuple[Request, int]] = {
    "in another order": (whole("op=CREATE&overwrite=true&key=key-{}&attempt=1&data=true"), 201),
    "in upper case": (whole(OVER.replace("data=true", "data=TRUE")), 201),
    "with a user": (whole(OVER + "&user.name=root"), 201),
    "with excluded data nodes": (whole(OVER + "&excludedatanodes=127.0.0.1:1"), 201),
    "without a key": (whole("op=CREATE&data=true"), 201),
    "with a key of any signs": (whole("op=CREATE&data=true&key=%21%7E{}"), 201),
    "of a later attempt": (whole(OVER.replace("attempt=1", "attempt=2")), 201),
    "that has a blob": (whole(body=BLOB), 201),
    "of two chunks": (chunked(BYTES, b"!"), 201),
    "of no chunk": (chunked(), 201),
    "with an extension of a chunk": (chunked(BYTES, extension=b";a=b"), 201),
    "with a trailer": (chunked(BYTES, end=b"0\r\nA: b\r\n\r\n"), 201),
    "that waits": (whole(headers={"Expect": "100-continue"}), 201),
    "with a field of one's own": (whole(headers={"X-Other": "1"}), 201),
    "that does not replace": (whole("op=CREATE&data=true", "checkpoint/commits/0"), 403),
    "by its flags": (whole("op=CREATE&data=true&createflag=CREATE,OVERWRITE", "checkpoint/new-{}"), 201),
    "that appends": (whole(OVER + "&createflag=APPEND"), 403),
    "in no directory": (whole(OVER + "&createparent=false", "no/{}"), 404),
    "in a directory": (whole(OVER + "&createparent=false", "checkpoint/{}"), 201),
    "without a redirect": (whole(OVER + "&noredirect=true"), 400),
    "with a redirect": (whole(OVER + "&noredirect=false"), 201),
    "with a token": (whole(OVER + "&token=abc"), 403),
    "with a flag that is none": (whole("op=CREATE&data=yes"), 400),
    "with two flags": (whole(OVER + "&data=false"), 400),
    "that does not come yet": (whole(OVER.replace("data=true", "data=false")), 307),
    "with two keys": (whole(OVER + "&key=b"), 400),
    "with an empty key": (whole("op=CREATE&data=true&key="), 400),
    "with a blank in the key": (whole("op=CREATE&data=true&key=a+{}"), 400),
    "with a letter in the key": (whole("op=CREATE&data=true&key=%C3%A4{}"), 400),
    "with a long key": (whole(f"op=CREATE&data=true&overwrite=true&key={'k' * 65}&attempt=1"), 400),
    "of an attempt without a key": (whole("op=CREATE&data=true&attempt=1"), 400),
    "of attempt 0": (whole(OVER.replace("attempt=1", "attempt=0")), 400),
    "of no attempt": (whole(OVER.replace("attempt=1", "attempt=")), 400),
    "of an attempt that is no number": (whole(OVER.replace("attempt=1", "attempt=one")), 400),
    "of two attempts": (whole(OVER + "&attempt=2"), 400),
    "of a very late attempt": (whole(OVER.replace("attempt=1", f"attempt={'9' * 18}")), 201),
    "with a digest of other bytes": (whole(headers={"Content-Digest": f"sha-256=:{'A' * 43}=:"}), 403),
    "of a part": (whole(headers={"Content-Range": "bytes 0-1/2"}), 400),
    "of another job's epoch": (whole(headers={"X-Milepost-trains-1": "x"}), 403),
    "of two epochs": (whole(headers={f"X-Milepost-{JOB}-7": "x"}), 403),
    "for a web page": (whole(headers={"Origin": "http://elsewhere.example"}), 403),
    "above the trees": (lambda tree, _: raw.head("PUT", "/webhdfs/v1/jobs?op=CREATE&data=true", tree.told()), 403),
    "with more bytes than it says": (framed(whole(), b"5"), 201),
    "with two lengths": (framed(whole(), b"%d\r\nContent-Length: %d" % (len(BYTES), len(BYTES))), 400),
    "with another length of nothing": (framed(whole(), b"%d\r\nContent-Length:0" % len(BYTES)), 400),
    "with a length and chunks": (framed(whole(), b"%d\r\nTransfer-Encoding: chunked" % len(BYTES)), 400),
    "with a signed length": (framed(whole(), b"+%d" % len(BYTES)), 400),
    "with a length and more": (framed(whole(), b"%d\r\n 1" % len(BYTES)), 400),
    "with a length that ends early": (framed(whole(), b"%d\nA: b" % len(BYTES)), 400),
}


@pytest.mark.parametrize(("request_", "status"), UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_not_a_usual_file_is_left_alone(
    clients: Clients, names: Iterator[str], request_: Request, status: int
) -> None:
    assert pair(clients, request_, names)[:2] == (status, False)


@pytest.mark.parametrize("body", [b"", BYTES, BLOB], ids=len)
@pytest.mark.parametrize("before", ["", "\r\n"], ids=["short", "long"])
def test_the_file_is_there_as_it_came(clients: Clients, names: Iterator[str], body: bytes, before: str) -> None:
    name = next(names)
    status, fields, *_ = clients.sent(before.encode() + whole(path="kept/{}", body=body)(clients.tree, name))
    assert (status, dict(fields)["location"]) == (201, f"webhdfs://milepost/jobs/{JOB}/kept/{name}")
    assert clients.tree.read(f"kept/{name}").content == body
    assert name in clients.tree.names("kept")


@pytest.mark.parametrize("epoch", [None, 0, 9], ids=["none", "an older one", "a newer one"])
@pytest.mark.parametrize("overwrite", [NEW, OVER], ids=["new", "over"])
def test_a_file_of_another_epoch_is_fenced(
    clients: Clients, names: Iterator[str], epoch: int | None, overwrite: str
) -> None:
    assert pair(clients, whole(overwrite), names, clients.tree.under(epoch)) == (403, True, 200)


def test_the_file_of_a_commit_is_a_snapshot(clients: Clients) -> None:
    for number, before in ((1, b""), (2, b"\r\n")):
        kept = set(clients.tree.names(".snapshot"))
        request = whole(path="query/commits/{}")(clients.tree, str(number))
        assert clients.sent(before + request)[0] == 201
        (made,) = set(clients.tree.names(".snapshot")) - kept
        assert clients.tree.read(f".snapshot/{made}/query/commits/{number}").content == BYTES


def test_a_token_is_asked_for_each_time(guarded: Clients, names: Iterator[str]) -> None:
    def told(query: str, *authorization: str) -> tuple[int, bool]:
        headers = {"Authorization": authorization[0]} if authorization else {}
        return pair(guarded, whole(query, headers=headers), names)[:2]

    again = OVER.replace("attempt=1", "attempt=2")
    assert told(OVER, "Bearer token-of-the-driver-of-all") == (201, True)
    assert told(again, "Bearer token-of-the-driver-of-all") == (201, False)
    for query in (OVER, again):
        for other in (READER, STRANGER):
            assert told(query, f"Bearer {other}") == (403, False)
        for wrong in ((), ("Bearer nobodys-token-0123456789",), (f"Basic {READER}",)):
            assert told(query, *wrong) == (401, False)


def test_a_refusal_of_a_retry_does_not_say_that_nothing_was_written(guarded: Clients, names: Iterator[str]) -> None:
    """Its first attempt may have been made when it had the right. What the rules decide holds for all attempts."""

    def outcome(attempt: int, headers: dict[str, str], path: str = "{}") -> tuple[int, str | None]:
        request = whole(NEW.replace("attempt=1", f"attempt={attempt}"), path, headers=headers)
        status, fields, *_ = guarded.sent(request(guarded.tree, next(names)))
        return status, dict(fields).get("milepost-outcome")

    driver = {"Authorization": "Bearer token-of-the-driver-of-all"}
    for headers, status in ((NOBODY, 401), ({"Authorization": f"Bearer {READER}"}, 403)):
        assert outcome(1, headers) == (status, None)
        assert outcome(2, headers) == (status, "unknown")
    assert outcome(2, driver, "checkpoint/commits/0") == (403, None)
    assert outcome(2, {"X-Milepost-trains-1": "x", **driver}) == (403, "unknown")


def test_a_job_writes_with_its_token_alone(guarded: Clients, names: Iterator[str]) -> None:
    driver = Api.on(guarded.served.http, "planes")
    driver = driver.under(driver.granted())
    told = driver.call("POST", "/epoch/credentials").json()
    form = {"grant_type": "client_credentials", **{key: told[key] for key in ("client_id", "client_secret")}}
    token = guarded.served.http.post("/oauth2/token", data=form).json()["access_token"]

    def request(job: str, **headers: str) -> tuple[int, bool]:
        quick, slow = next(names), next(names)
        said = {**JAVA, "Authorization": f"Bearer {token}", "Content-Length": str(len(BYTES)), **headers}
        first, second = (
            raw.head("PUT", f"/webhdfs/v1/jobs/{job}/a/{name}?{OVER.format(name)}", said) + BYTES
            for name in (quick, slow)
        )
        found = guarded.pair(first, second, (quick, slow))
        return found[0][0], found[1]

    assert request("planes")[0] == 201  # the first request of all with a token is left to the gate
    assert request("planes") == (201, True)
    assert request("planes", **{f"X-Milepost-planes-{told['epoch']}": "x"}) == (201, True)
    assert request("planes", **{"X-Milepost-planes-7": "x"}) == (403, False)
    assert request(JOB) == (403, False)
    driver.call("DELETE", "/epoch")
    next_one = Api.on(guarded.served.http, "planes")
    assert next_one.granted() > told["epoch"]
    assert request("planes") == (403, True)


def test_the_bytes_may_come_behind_the_head(
    clients: Clients, names: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_HALF_SECONDS", raw.DEADLINE_SECONDS)
    for request in (whole(), chunked(BYTES, path="checkpoint/.{}.tmp")):
        assert in_two(clients, request, next(names), 0) == [False, True]
        assert in_two(clients, request, next(names), 2) == [False]
        assert in_two(clients, request, next(names), -2) == [False]
    again = whole(OVER.replace("attempt=1", "attempt=2"))
    assert in_two(clients, again, next(names), 0) == [False]


@pytest.mark.parametrize("before", [b"", b"\r\n"], ids=["short", "long"])
@pytest.mark.parametrize("sent", [0, 5], ids=["no", "some"])
def test_a_client_that_ends_its_side_inside_the_body_writes_nothing(
    clients: Clients, names: Iterator[str], before: bytes, sent: int
) -> None:
    name = next(names)
    request = before + whole(path="cut/{}")(clients.tree, name)
    answer = raw.ask(str(clients.served.http.base_url), request[: sent - len(BYTES)], half_close=True)
    assert "inside the body" in refused(answer, 403, "IOException")
    assert "milepost-outcome" not in answer.headers
    assert clients.tree.ask("GET", f"cut/{name}", "GETFILESTATUS").status_code == 404


def test_requests_that_are_sent_one_behind_the_other(clients: Clients, names: Iterator[str]) -> None:
    """Together they are of no usual form, so the parser reads all of them."""
    paths = [f"behind/{next(names)}" for _ in range(3)]
    requests = [whole(path="{}")(clients.tree, path) for path in paths]
    requests = [request.replace(b"key=key-behind/", b"key=key-") for request in requests]
    clients.went.clear()
    with raw.connected(str(clients.served.http.base_url)) as connection:
        connection.sendall(b"".join(requests) + raw.head("GET", "/livez"))
        answers = raw.answers(connection, "PUT", "PUT", "PUT", "GET")
        assert [answer.status_code for answer in answers] == [201, 201, 201, 200]
    assert not any(clients.went)
    assert [clients.tree.read(path).content for path in paths] == [BYTES] * 3


def test_a_client_that_is_gone_has_written_all_the_same(clients: Clients, names: Iterator[str]) -> None:
    """As with a rename, it asks again to know."""
    for before in (b"", b"\r\n"):
        name = next(names)
        request = whole(NEW, "gone/{}")(clients.tree, name)
        with clients.served.held_commit() as begun, raw.connected(str(clients.served.http.base_url)) as connection:
            connection.sendall(before + request)
            begun()
            connection.shutdown(socket.SHUT_RDWR)
        again = request.replace(b"attempt=1", b"attempt=2")
        assert clients.sent(again)[0] == 201
        assert clients.tree.read(f"gone/{name}").content == BYTES


def test_a_file_of_more_bytes_than_a_deployment_takes(tmp_path: Path) -> None:
    limited = replace(PROMPT, inline_below=4096, max_state_bytes=1000)
    with in_process(tmp_path, limited) as here:
        tree = Tree(here.http, JOB, Api.on(here.http, JOB).granted())
        for before in (b"", b"\r\n"):
            for request in (whole(body=BLOB[:1001]), chunked(BLOB[:1001]), chunked(BLOB[:500], BLOB[:501])):
                answer = raw.ask(str(here.http.base_url), before + request(tree, "a"))
                assert "1000 bytes" in refused(answer, 403, "IOException")
            assert raw.ask(str(here.http.base_url), before + whole(body=BLOB[:1000])(tree, "b")).status_code == 201
        assert tree.names("checkpoint") == [".b.tmp"]

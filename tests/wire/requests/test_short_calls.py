"""Usual calls of handles are answered in front of the parser, and get the answers that the routes give.

Each call is sent as it is, and behind an empty line, which keeps it from the short way; a change is sent about one
handle, and then about another one of the same kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any

import pytest

from milepost.operations import OPERATIONS
from milepost.operations.operation import Right
from milepost_server.http.access.rights import Patterns, Rights
from milepost_server.http.access.tokens import Principal
from tests.wire.support import raw
from tests.wire.support.api import Api, digest
from tests.wire.webhdfs.twins import READER, STRANGER, Changing, Clients, served

STORE = "calls"
WRITER = "token-of-the-driver-of-all"
SDK = {"Accept": "*/*", "Connection": "keep-alive", "User-Agent": "milepost-python/0", "Accept-Encoding": "identity"}
_NUMBERS = count()
_OWN = re.compile(r"[0-9a-f]{12}\.\d+|\d{4}-\d\d-\d\dT[0-9:.]+Z|h\d{5}|k\d{5}")
"""What is another one for another handle: versions, times, names and keys."""

Told = tuple[int, str, bool]
"""Status and text of the answer, and whether the call went the short way."""


@dataclass
class Calls:
    """A server, and sessions on a store of it: one that holds every handle, and another one."""

    clients: Clients
    holder: Api
    other: Api
    token: dict[str, str]

    def both(self, call: Callable[[str], bytes], *, held: bool = True) -> Told:
        """Send a call about one handle as it is, and about another one the long way. Their answers must be equal."""
        told = []
        for way in (b"", b"\r\n"):
            name = f"h{next(_NUMBERS):05}"
            if held:
                self.holder.added(name, b"x" * 100)
            told.append(self.one(way + call(name)))
        (first, is_quick), (second, is_long) = told
        assert first == second
        assert not is_long
        return first[0], str(first), is_quick

    def one(self, request: bytes) -> tuple[tuple[Any, ...], bool]:
        self.clients.went.clear()
        status, fields, content, behind = self.clients.sent(request)
        went = any(self.clients.went)
        # versions of later changes have more digits
        plain = [(name, _OWN.sub("…", value)) for name, value in fields if name != "content-length"]
        return (status, plain, _OWN.sub("…", content), behind), went

    def ask(
        self,
        method: str,
        below: str = "",
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        session: str | None = None,
    ) -> Callable[[str], bytes]:
        own = {"Milepost-Session": session} if session else {}
        length = {} if method in ("GET", "HEAD", "DELETE") and not body else {"Content-Length": str(len(body))}
        told = {**SDK, **self.token, **own, **length, **(headers or {})}
        return lambda name: raw.head(method, f"/v1/stores/{STORE}/handles/{name}{below}", told) + body


def calling(clients: Clients, token: dict[str, str]) -> Calls:
    holder = Api.on(clients.served.http, STORE)
    return Calls(clients, holder, holder.other(), token)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calls]:
    with ExitStack() as stack:
        yield calling(served(tmp_path_factory.mktemp("calls"), None, {}, stack), {})


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calls]:
    """The same server with tokens: of a writer of everything, of a reader of all stores, and of one of another."""
    listed = [
        Principal("driver", Rights(writer=Patterns(("*",))), sha256(WRITER.encode()).digest()),
        Principal("reader", Rights(reader=Patterns(("*",))), sha256(READER.encode()).digest()),
        Principal("stranger", Rights(writer=Patterns(("trains",))), sha256(STRANGER.encode()).digest()),
    ]
    headers = {"Authorization": f"Bearer {WRITER}"}
    with ExitStack() as stack:
        yield calling(served(tmp_path_factory.mktemp("guarded"), Changing(listed), headers, stack), headers)


def test_the_operations_of_the_short_way_need_the_rights_that_it_checks() -> None:
    handle = "/v1/stores/{store}/handles/{name}"
    reads = ["GET " + handle, "HEAD " + handle, f"GET {handle}/state"]
    changes = ["POST " + handle, "PUT " + handle, f"POST {handle}/lock", f"DELETE {handle}/lock"]
    for names, right in ((reads, Right.READ), (changes, Right.WRITE)):
        for name in names:
            operation = OPERATIONS[name]
            assert (operation.right, operation.audit_name, operation.of_store) == (right, "", True)


READS = {
    "a record": ("GET", "", {}, 200),
    "a record as JSON": ("GET", "", {"Accept": "application/json"}, 200),
    "whether it exists": ("HEAD", "", {}, 200),
    "a state": ("GET", "/state", {}, 200),
    "a state as the SDK asks for it": ("GET", "/state?redirect=true", {}, 200),
    "a state as bytes": ("GET", "/state", {"Accept": "application/octet-stream"}, 200),
    "with an id": ("GET", "", {"X-Request-Id": "5a11d39a611842bd-1"}, 200),
    "with a session": ("GET", "", {"Milepost-Session": "of a stranger".replace(" ", "-")}, 200),
    "with an empty body": ("GET", "", {"Content-Length": "0"}, 200),
}


@pytest.mark.parametrize(("method", "below", "headers", "status"), READS.values(), ids=READS)
def test_a_read_goes_the_short_way(calls: Calls, method: str, below: str, headers: dict[str, str], status: int) -> None:
    told, _, is_quick = calls.both(calls.ask(method, below, headers))
    assert (told, is_quick) == (status, True)


def test_changes_go_the_short_way(calls: Calls) -> None:
    holder, other = calls.holder.session, calls.other.session
    assert holder
    assert other
    body = b"y" * 1024

    def quick(status: int, call: Callable[[str], bytes], *, held: bool = True) -> str:
        told, text, is_quick = calls.both(call, held=held)
        assert (told, is_quick) == (status, True), text
        return text

    quick(200, calls.ask("POST", "/lock", session=other))
    quick(200, calls.ask("POST", "/lock", session=holder))
    quick(204, calls.ask("DELETE", "/lock", session=holder))
    quick(204, calls.ask("DELETE", "/lock", session=other))
    quick(204, calls.ask("DELETE", "/lock", session=other), held=False)
    quick(404, calls.ask("POST", "/lock", session=other), held=False)
    quick(404, calls.ask("POST", "/lock", session="of-nobody"))
    quick(201, calls.ask("POST", "", {}, body, session=other), held=False)
    quick(201, calls.ask("POST", "", {}, b"", session=other), held=False)
    quick(201, calls.ask("POST", "", {"Content-Digest": digest(body)}, body, session=other), held=False)
    quick(422, calls.ask("POST", "", {"Content-Digest": digest(b"other")}, body, session=other), held=False)
    quick(409, calls.ask("POST", "", {}, body, session=other))
    quick(412, calls.ask("PUT", "", {"If-Match": '"1.1"'}, body, session=holder))
    quick(409, calls.ask("POST", "", {"Milepost-Epoch": "7"}, body, session=other), held=False)


def test_a_replacement_goes_the_short_way(calls: Calls) -> None:
    def call(session: str | None) -> Callable[[str], bytes]:
        def request(name: str) -> bytes:
            version = calls.holder.get(name).json()["version"]
            return calls.ask("PUT", "", {"If-Match": f'"{version}"'}, b"new", session=session)(name)

        return request

    assert calls.both(call(calls.holder.session))[::2] == (200, True)
    assert calls.both(call(calls.other.session))[::2] == (409, True)


def test_a_retry_gets_the_first_answer(calls: Calls) -> None:
    for method, body in (("POST", b"y"), ("PUT", b"z")):
        name = f"h{next(_NUMBERS):05}"
        version = calls.holder.added(name, b"x")["version"]
        target = f"h{next(_NUMBERS):05}" if method == "POST" else name
        key = {"Idempotency-Key": f"k{next(_NUMBERS):05}", "If-Match": f'"{version}"'}
        first, second = (
            calls.ask(method, "", {**key, "Milepost-Attempt": str(number)}, body, calls.holder.session)(target)
            for number in (1, 2)
        )
        (told, *_), was_quick = calls.one(first)
        again, is_quick = calls.one(second)
        long, _ = calls.one(b"\r\n" + second)
        assert (told, again[0], was_quick, is_quick) == (201 if method == "POST" else 200, told, True, True)
        assert again == long
        assert ("milepost-replayed", "true") in again[1]
        other = calls.ask(method, "", key, b"other bytes", calls.holder.session)(target)
        refused, is_quick = calls.one(other)
        assert (refused[0], is_quick) == (422, True)
        assert refused == calls.one(b"\r\n" + other)[0]


def test_a_body_that_comes_later_goes_the_short_way(calls: Calls) -> None:
    name = f"h{next(_NUMBERS):05}"
    request = calls.ask("POST", "", {}, b"late", calls.holder.session)(name)
    calls.clients.went.clear()
    with raw.connected(str(calls.clients.served.http.base_url)) as connection:
        connection.sendall(request[:-4])
        connection.sendall(request[-4:])
        assert raw.answer(connection).status_code == 201
    assert calls.holder.state(name).content == b"late"


LOCK, ADD, REPLACE, RECORD, STATE = ("POST", "/lock"), ("POST", ""), ("PUT", ""), ("GET", ""), ("GET", "/state")

LEFT_ALONE: dict[str, tuple[tuple[str, str], dict[str, str], bytes]] = {
    "no session": (LOCK, {"Milepost-Session": ""}, b""),
    "no name of a session": (LOCK, {"Milepost-Session": ".x"}, b""),
    "a key that is too long": (LOCK, {"Idempotency-Key": "k" * 65}, b""),
    "a key with a blank": (LOCK, {"Idempotency-Key": "a b"}, b""),
    "a key outside ASCII": (LOCK, {"Idempotency-Key": "\xe4"}, b""),
    "an attempt without a key": (LOCK, {"Milepost-Attempt": "1"}, b""),
    "attempt 0": (LOCK, {"Idempotency-Key": "a0", "Milepost-Attempt": "0"}, b""),
    "an attempt that is no number": (LOCK, {"Idempotency-Key": "a1", "Milepost-Attempt": "+1"}, b""),
    "epoch 0": (ADD, {"Milepost-Epoch": "0"}, b"x"),
    "an epoch that is no number": (ADD, {"Milepost-Epoch": "1.0"}, b"x"),
    "a lock with a body": (LOCK, {}, b"{}"),
    "a lock with members": (LOCK, {"Content-Type": "application/json"}, b'{"a":1}'),
    "labels": (ADD, {"Milepost-Labels": '{"a":"b"}'}, b"x"),
    "a label": (ADD, {"Milepost-Label-a": "b"}, b"x"),
    "an upload": (ADD, {"Content-Type": "application/vnd.milepost.upload+json"}, b"{}"),
    "a part of a state": (ADD, {"Content-Range": "bytes 0-0/2"}, b"x"),
    "a digest that is none": (ADD, {"Content-Digest": "sha-256=:x:"}, b"x"),
    "no version": (REPLACE, {}, b"x"),
    "any version": (REPLACE, {"If-Match": "*"}, b"x"),
    "a weak version": (REPLACE, {"If-Match": 'W/"1.1"'}, b"x"),
    "two versions": (REPLACE, {"If-Match": '"1.1"', "if-match": '"1.1"'}, b"x"),
    "an act": (REPLACE, {"If-Match": '"1.1"', "Milepost-Act": "{}"}, b"x"),
    "a web page's": (LOCK, {"Origin": "http://elsewhere.example"}, b""),
    "another host": (RECORD, {"Host": "elsewhere.example"}, b""),
    "two sessions": (LOCK, {"milepost-session": "other"}, b""),
    "two kinds of answers": (RECORD, {"accept": "text/html"}, b""),
    "a record as text": (RECORD, {"Accept": "text/html"}, b""),
    "a state as JSON": (STATE, {"Accept": "application/json"}, b""),
    "a record with the query of a state": (("GET", "?redirect=true"), {}, b""),
    "a lock with the query of a state": (("POST", "/lock?redirect=true"), {}, b""),
    "a part": (STATE, {"Range": "bytes=0-1"}, b""),
    "another version": (STATE, {"If-Match": '"1.1"'}, b""),
    "a field that is not known": (RECORD, {"X-Forwarded-For": "127.0.0.1"}, b""),
    "a connection that ends": (RECORD, {"Connection": "close"}, b""),
    "an offer": (RECORD, {"Connection": "Upgrade", "Upgrade": "h2c"}, b""),
    "a long id": (RECORD, {"X-Request-Id": "x" * 129}, b""),
    "an id with a blank": (RECORD, {"X-Request-Id": "a b"}, b""),
    "a read with a body": (RECORD, {"Content-Length": "2"}, b"{}"),
    "a client that waits": (ADD, {"Expect": "100-continue"}, b""),
}


@pytest.mark.parametrize(("call", "headers", "body"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_an_unusual_call_is_left_alone(
    calls: Calls, call: tuple[str, str], headers: dict[str, str], body: bytes
) -> None:
    _, _, is_quick = calls.both(calls.ask(*call, headers, body, session=calls.holder.session))
    assert not is_quick


BENT: dict[str, Callable[[bytes], bytes]] = {
    "a query": lambda call: call.replace(b" HTTP", b"?a=b HTTP"),
    "an encoded letter": lambda call: call.replace(b"/handles/h", b"/handles/%68"),
    "a name with a dot before it": lambda call: call.replace(b"/handles/h", b"/handles/.h"),
    "a slash behind it": lambda call: call.replace(b" HTTP", b"/ HTTP"),
    "two slashes": lambda call: call.replace(b"/handles/", b"//handles/"),
    "the whole address": lambda call: call.replace(b" /v1", b" http://localhost/v1"),
    "a method in lower case": lambda call: call.replace(b"POST ", b"post "),
    "another method": lambda call: call.replace(b"POST ", b"PATCH "),
    "HTTP/1.0": lambda call: call.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "two blanks": lambda call: call.replace(b" HTTP", b"  HTTP"),
    "a line that ends early": lambda call: call.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\n"),
    "a field that ends early": lambda call: call.replace(b"*/*\r\n", b"*/*\n"),
    "a folded field": lambda call: call.replace(b"\r\nAccept: ", b"\r\n Accept: "),
    "a field folded with a tab": lambda call: call.replace(b"\r\nAccept: ", b"\r\n\tAccept: "),
    "a head that ends early": lambda call: call.replace(b"*/*\r\n", b"*/*\n\r\n"),
    "a field without a colon": lambda call: call.replace(b"Accept: ", b"Accept "),
    "a blank before the colon": lambda call: call.replace(b"Session:", b"Session :"),
    "no blank behind the colon": lambda call: call.replace(b"Session: ", b"Session:"),
    "a line break in a session": lambda call: call.replace(b"Session: ", b"Session: \r"),
    "a zero in a field": lambda call: call.replace(b"*/*", b"*\0*"),
    "a body in chunks": lambda call: call.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "two lengths": lambda call: call.replace(b"Content-Length: 0", b"Content-Length: 0\r\nContent-Length: 0"),
    "a length with a sign": lambda call: call.replace(b"Content-Length: 0", b"Content-Length: +0"),
    "a body that was not announced": lambda call: call + b"GET /livez HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("bend", BENT.values(), ids=BENT)
def test_a_call_of_another_form_is_left_alone(calls: Calls, bend: Callable[[bytes], bytes]) -> None:
    call = calls.ask("POST", "/lock", session=calls.other.session)
    assert bend(call("h")) != call("h")
    _, _, is_quick = calls.both(lambda name: bend(call(name)))
    assert not is_quick


def test_a_token_is_asked_for_each_time(guarded: Calls) -> None:
    def told(method: str, below: str, *authorization: str, session: str | None = None) -> tuple[int, bool]:
        headers = {"Authorization": authorization[0] if authorization else ""}
        status, _, is_quick = guarded.both(guarded.ask(method, below, headers, session=session))
        return status, is_quick

    writer = guarded.holder.session
    assert told("GET", "", f"Bearer {WRITER}") == (200, True)
    assert told("GET", "", f"bearer {READER}") == (200, True)
    assert told("POST", "/lock", f"Bearer {WRITER}", session=writer) == (200, True)
    assert told("POST", "/lock", f"Bearer {READER}", session=writer) == (403, False)
    assert told("GET", "", f"Bearer {STRANGER}") == (403, False)
    for wrong in ("Bearer nobodys-token-0123456789", f"Basic {WRITER}", "Bearer", ""):
        assert told("GET", "", wrong) == (401, False)


def test_a_session_belongs_to_its_client(guarded: Calls) -> None:
    call = guarded.ask("POST", "/lock", session=guarded.holder.session)
    assert guarded.both(call)[::2] == (200, True)
    http = guarded.clients.served.http
    http.headers.update({"Authorization": f"Bearer {STRANGER}"})
    stranger = Api.on(http, "trains").session
    http.headers.update(guarded.token)
    assert guarded.both(guarded.ask("POST", "/lock", session=stranger))[::2] == (403, True)


def test_the_token_of_a_job_opens_no_handle(guarded: Calls) -> None:
    http = guarded.clients.served.http
    driver = Api.on(http, "trains")
    told = driver.under(driver.granted()).call("POST", "/epoch/credentials")
    form = {"grant_type": "client_credentials", **{key: told.json()[key] for key in ("client_id", "client_secret")}}
    token = http.post("/oauth2/token", data=form).json()["access_token"]
    status, _, is_quick = guarded.both(guarded.ask("GET", "", {"Authorization": f"Bearer {token}"}))
    assert (status, is_quick) == (403, False)


def test_a_change_is_seen_by_the_next_read(calls: Calls) -> None:
    name = f"h{next(_NUMBERS):05}"
    record = calls.ask("GET")(name)
    assert calls.one(record)[0][0] == 404
    version = calls.holder.added(name, b"x")["version"]
    (status, _, first, _), is_quick = calls.one(record)
    assert (status, is_quick) == (200, True)
    assert calls.holder.replace(name, version, b"longer").status_code == 200
    assert calls.one(record)[0][2] != first
    assert calls.one(calls.ask("GET", "/state")(name))[0][2] == "longer"
    assert calls.holder.remove(name).status_code == 200
    assert calls.one(record)[0][0] == 404


def test_an_answer_is_counted(calls: Calls) -> None:
    asked = re.compile(r'milepost_requests_total\{method="(POST|DELETE)",status="20[04]"\} (\S+)')

    def numbers() -> float:
        return sum(float(number) for _, number in asked.findall(calls.clients.served.http.get("/metrics").text))

    name = f"h{next(_NUMBERS):05}"
    calls.holder.added(name, b"x")
    before = numbers()
    assert calls.one(calls.ask("POST", "/lock", session=calls.other.session)(name))[1]
    assert calls.one(calls.ask("DELETE", "/lock", session=calls.other.session)(name))[1]
    assert numbers() == before + 2

"""CREATE, the PUT behind it, RENAME and DELETE of the usual form go the short way, and get the answers of the routes.

Each is sent about one file as it is, and about another one the long way, as `twins` says.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from milepost.operations.replicas import PUBLISH_FILE
from milepost_server.http.connection import protocol
from milepost_server.http.connection.slow_peers import SlowPeerGuard
from milepost_server.http.webhdfs.datanode.exchanges import post_message
from milepost_server.http.webhdfs.datanode.peer import Publish, signed
from milepost_server.http.webhdfs.short_answers import ShortAnswers
from tests.wire.support import raw
from tests.wire.support.api import Api, until
from tests.wire.webhdfs.hadoop import Tree
from tests.wire.webhdfs.twins import BYTES, JAVA, JOB, READER, STRANGER, Clients, Request, in_two, pair, write

AS_JAVA = (
    "op=CREATE&user.name=root&blocksize=134217728&buffersize=65536&overwrite=true&permission=644&replication=1"
    "&unmaskedpermission=666"
)
_TOKEN = re.compile(r"token=[A-Za-z0-9_-]+")


def creating(query: str = AS_JAVA, headers: dict[str, str] | None = None) -> Request:
    return lambda tree, name: write(tree, f"checkpoint/.{name}.tmp", query, headers=headers)


def renaming(options: str = "&renameoptions=NONE", source: str = "", target: str = "") -> Request:
    """Rename the file of a name, which is there."""

    def request(tree: Tree, name: str) -> bytes:
        if not source:
            assert tree.create(f"checkpoint/.{name}.tmp", BYTES).status_code == 201
        destination = (target or f"%2Fjobs%2F{JOB}%2Fcheckpoint%2F{{}}").format(name)
        query = f"op=RENAME&user.name=root&destination={destination}{options}"
        return write(tree, source or f"checkpoint/.{name}.tmp", query)

    return request


def address(tree: Tree, name: str) -> str:
    first = tree.ask("PUT", f"checkpoint/.{name}.tmp", "CREATE", overwrite="true")
    where = urlsplit(first.headers["location"])
    return f"{where.path}?{where.query}"


def putting(
    body: bytes = BYTES,
    *,
    chunks: bool = False,
    change: Callable[[str], str] = str,
    headers: dict[str, str] | None = None,
) -> Request:
    """Put the bytes of a file at the address of a CREATE."""

    def request(tree: Tree, name: str) -> bytes:
        framing = {"Transfer-Encoding": "chunked"} if chunks else {"Content-Length": str(len(body))}
        told = {**JAVA, **tree.told(), "Content-Type": "application/octet-stream", **framing, **(headers or {})}
        sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunks else body
        return raw.head("PUT", change(address(tree, name)), told) + sent

    return request


def deleting(query: str = "op=DELETE&user.name=root&recursive=false", path: str = "", **headers: str) -> Request:
    """Delete the file of a name, which is there, with another one beside it."""

    def request(tree: Tree, name: str) -> bytes:
        for file in () if path else (f"{name}/a", f"{name}/b"):
            assert tree.create(f"deleted/{file}", BYTES).status_code == 201
        where = f"/webhdfs/v1/jobs/{JOB}/{path or f'deleted/{name}/a'}"
        return raw.head("DELETE", f"{where}?{query}", {**JAVA, **tree.told(), **headers})

    return request


def deleting_both(query: str) -> Request:
    """Delete the directory of a name, which has two files."""

    def request(tree: Tree, name: str) -> bytes:
        return deleting(query)(tree, name).replace(f"/{name}/a?".encode(), f"/{name}?".encode())

    return request


USUAL: dict[str, tuple[Request, int]] = {
    "CREATE as Java asks": (creating(), 307),
    "CREATE in a new directory": (lambda tree, name: write(tree, f"new/{name}/a", "op=CREATE&overwrite=false"), 307),
    "RENAME as Java asks": (renaming(), 200),
    "RENAME of the older kind": (renaming(""), 200),
    "RENAME of the older kind of nothing": (renaming("", "nothing"), 200),
    "RENAME onto a file": (renaming("&renameoptions=OVERWRITE", target=f"/jobs/{JOB}/checkpoint/commits/0"), 200),
    "RENAME of nothing": (renaming(source="nothing"), 404),
    "RENAME onto a file that must not be there": (renaming(target=f"%2Fjobs%2F{JOB}%2Fcheckpoint%2Foffsets%2F0"), 403),
    "RENAME into no directory": (renaming(target=f"%2Fjobs%2F{JOB}%2Fnowhere%2F{{}}"), 404),
    "RENAME to a name with a sign": (renaming(target=f"%2Fjobs%2F{JOB}%2Fcheckpoint%2Fa%3D{{}}"), 200),
    "DELETE as Java asks": (deleting(), 200),
    "DELETE without a word": (deleting("op=DELETE"), 200),
    "DELETE of nothing": (deleting(path="nothing"), 200),
    "DELETE of a directory": (deleting_both("op=DELETE&user.name=root&recursive=true"), 200),
    "DELETE of a directory that must be empty": (deleting_both("op=DELETE&recursive=false"), 403),
    "PUT": (putting(), 201),
    "PUT in chunks": (putting(chunks=True), 201),
    "PUT of nothing": (putting(b""), 201),
    "PUT of one byte": (putting(b"x", chunks=True), 201),
    "PUT of what looks like an end": (putting(b"\r\n0\r\n\r\n", chunks=True), 201),
}


@pytest.mark.parametrize(("request_", "status"), USUAL.values(), ids=USUAL)
def test_a_usual_write_goes_the_short_way(
    clients: Clients, names: Iterator[str], request_: Request, status: int
) -> None:
    assert pair(clients, request_, names) == (status, True, 200)


UNUSUAL: dict[str, tuple[Request, int]] = {
    "CREATE of a file that is there": (lambda tree, _: write(tree, "checkpoint/commits/0", "op=CREATE"), 403),
    "CREATE below a file": (lambda tree, _: write(tree, "checkpoint/commits/0/a", "op=CREATE"), 403),
    "CREATE of a directory": (lambda tree, _: write(tree, "checkpoint", "op=CREATE&overwrite=true"), 403),
    "CREATE in no directory": (lambda tree, name: write(tree, f"no/{name}", "op=CREATE&createparent=false"), 404),
    "CREATE of what is no tree": (lambda tree, _: raw.head("PUT", "/webhdfs/v1/jobs?op=CREATE", tree.told()), 403),
    "CREATE without a redirect": (creating(f"{AS_JAVA}&noredirect=true"), 200),
    "CREATE elsewhere": (creating(f"{AS_JAVA}&excludedatanodes=127.0.0.1:1"), 307),
    "CREATE that appends": (creating("op=CREATE&createflag=APPEND"), 403),
    "CREATE of two kinds": (creating(f"{AS_JAVA}&overwrite=false"), 400),
    "CREATE with an encoded letter": (creating("op=CREATE&user.name=ro%6ft"), 307),
    "CREATE of another job's epoch": (creating(headers={"X-Milepost-trains-1": "x"}), 403),
    "CREATE with a body": (lambda tree, name: write(tree, f"checkpoint/{name}", AS_JAVA, b"bytes"), 307),
    "CREATE that waits": (creating(headers={"Expect": "100-continue"}), 307),
    "CREATE with a field of one's own": (creating(headers={"X-Other": "1"}), 307),
    "CREATE of a later attempt": (creating(headers={"Milepost-Attempt": "2"}), 307),
    "CREATE for a web page": (creating(headers={"Origin": "http://elsewhere.example"}), 403),
    "CREATE by another host": (creating(headers={"Host": "elsewhere.example"}), 403),
    "MKDIRS": (lambda tree, name: write(tree, f"checkpoint/{name}", "op=MKDIRS"), 200),
    "RENAME to another job": (renaming(target="%2Fjobs%2Ftrains%2Fa"), 403),
    "RENAME to no path from the root": (renaming(target="jobs%2Fflights%2Fa"), 400),
    "RENAME to an empty part": (renaming(target=f"%2Fjobs%2F{JOB}%2F%2Fa"), 400),
    "RENAME to two dots": (renaming(target=f"%2Fjobs%2F{JOB}%2F..%2Fa"), 400),
    "RENAME twice": (renaming(f"&destination=%2Fjobs%2F{JOB}%2Fb"), 400),
    "RENAME with an unknown option": (renaming("&renameoptions=SOME"), 400),
    "RENAME with a blank": (renaming(target=f"%2Fjobs%2F{JOB}%2Fcheckpoint%2Fa+{{}}"), 200),
    "DELETE with an encoded letter": (deleting("op=DELETE&user.name=ro%6ft"), 200),
    "DELETE in another case": (deleting("op=delete&recursive=TRUE"), 200),
    "DELETE of neither kind": (deleting("op=DELETE&recursive=maybe"), 400),
    "DELETE of both kinds": (deleting("op=DELETE&recursive=true&recursive=false"), 400),
    "DELETE by another operation": (deleting("op=RENAME"), 403),
    "DELETE of no operation": (deleting("recursive=true"), 403),
    "DELETE of two dots": (deleting(path="checkpoint/../a"), 400),
    "DELETE of all jobs": (lambda tree, _: raw.head("DELETE", "/webhdfs/v1/jobs?op=DELETE", tree.told()), 403),
    "DELETE of another job's epoch": (deleting(**{"X-Milepost-trains-1": "x"}), 403),
    "DELETE of a later attempt": (deleting(**{"Milepost-Attempt": "2"}), 200),
    "DELETE with a body": (lambda tree, name: deleting(**{"Content-Length": "2"})(tree, name) + b"{}", 200),
    "DELETE for a web page": (deleting(Origin="http://elsewhere.example"), 403),
    "PUT of a file with a blob": (putting(b"x" * 5000), 201),
    "PUT in two chunks": (
        lambda tree, name: putting(chunks=True)(tree, name).replace(b"\r\n0\r\n\r\n", b"\r\n1\r\n!\r\n0\r\n\r\n"),
        201,
    ),
    "PUT of no chunk": (
        lambda tree, name: putting(b"", chunks=True)(tree, name).replace(b"0\r\n\r\n0\r\n\r\n", b"0\r\n\r\n"),
        201,
    ),
    "PUT with an extension of a chunk": (
        lambda tree, name: putting(chunks=True)(tree, name).replace(b"15\r\n", b"15;a=b\r\n"),
        201,
    ),
    "PUT with a trailer": (
        lambda tree, name: putting(chunks=True)(tree, name).replace(b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n"),
        201,
    ),
    "PUT with a digest of other bytes": (
        putting(headers={"Content-Digest": "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"}),
        403,
    ),
    "PUT of a part": (putting(headers={"Content-Range": "bytes 0-1/2"}), 400),
    "PUT with a changed token": (putting(change=lambda where: where[:-9] + where[-9:].swapcase()), 403),
    "PUT with two tokens": (putting(change=lambda where: f"{where}&token=a"), 403),
    "PUT to another file": (putting(change=lambda where: where.replace("/.", "/x")), 403),
    "PUT of another job's epoch": (putting(headers={"X-Milepost-trains-1": "x"}), 403),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "status"), UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_not_a_usual_write_is_left_alone(
    clients: Clients, names: Iterator[str], request_: Request, status: int
) -> None:
    assert pair(clients, request_, names)[:2] == (status, False)


@pytest.mark.parametrize("epoch", [None, 0, 9], ids=["none", "an older one", "a newer one"])
@pytest.mark.parametrize(
    "request_", [creating(), renaming("", "nothing"), deleting(path="nothing")], ids=["CREATE", "RENAME", "DELETE"]
)
def test_a_write_under_another_epoch_is_fenced(
    clients: Clients, names: Iterator[str], epoch: int | None, request_: Request
) -> None:
    """Only the commit decides about a RENAME and a DELETE."""
    is_committed = b"CREATE" not in request_(clients.tree, "a")
    assert pair(clients, request_, names, clients.tree.under(epoch)) == (403, is_committed, 200)


def test_a_token_is_asked_for_each_time(guarded: Clients, names: Iterator[str]) -> None:
    def told(*authorization: str) -> tuple[int, bool]:
        headers = {"Authorization": authorization[0]} if authorization else {}
        return pair(guarded, creating(headers=headers), names)[:2]

    assert told("Bearer token-of-the-driver-of-all") == (307, True)
    for other in (READER, STRANGER):
        assert told(f"Bearer {other}") == (403, False)
    for wrong in ((), ("Bearer nobodys-token-0123456789",), (f"Basic {READER}",)):
        assert told(*wrong) == (401, False)


def test_a_token_of_another_epoch_than_the_header_is_refused(guarded: Clients, names: Iterator[str]) -> None:
    driver = Api.on(guarded.served.http, "trains")
    driver = driver.under(driver.granted())
    told = driver.call("POST", "/epoch/credentials").json()
    form = {"grant_type": "client_credentials", **{key: told[key] for key in ("client_id", "client_secret")}}
    token = guarded.served.http.post("/oauth2/token", data=form).json()["access_token"]

    def request(job: str, name: str, **headers: str) -> bytes:
        told = {**JAVA, "Authorization": f"Bearer {token}", "Content-Length": "0", **headers}
        return raw.head("PUT", f"/webhdfs/v1/jobs/{job}/checkpoint/{name}?{AS_JAVA}", told)

    guarded.sent(request("trains", "a"))  # the first request of all with a token is left to the gate
    for job, headers, status, is_quick in (
        ("trains", {}, 307, True),
        ("trains", {f"X-Milepost-trains-{told['epoch']}": "x"}, 307, True),
        ("trains", {"X-Milepost-trains-7": "x"}, 403, False),
        (JOB, {}, 403, False),
    ):
        quick, slow = next(names), next(names)
        found = guarded.pair(request(job, quick, **headers), request(job, slow, **headers), (quick, slow))
        assert (found[0][0], found[1]) == (status, is_quick)


def publishing(clients: Clients, change: Callable[[bytes], bytes] = bytes, **changes: Any) -> Request:
    """Ask to publish a file as another replica that has received its bytes does."""

    def request(tree: Tree, name: str) -> bytes:
        token = address(tree, name).rpartition("token=")[2]
        digest = sha256(BYTES).hexdigest()
        message = Publish(token, JOB, f"checkpoint/.{name}.tmp", len(BYTES), digest, "", BYTES, 1)
        body, headers = signed(replace(message, **changes), clients.key)
        return change(post_message(urlsplit(f"http://127.0.0.1{PUBLISH_FILE.path}"), body, headers))

    return request


def test_what_another_replica_has_received_is_published_on_the_short_way(
    clients: Clients, names: Iterator[str]
) -> None:
    assert pair(clients, publishing(clients), names) == (200, True, 200)
    assert pair(clients, publishing(clients, path="checkpoint/another"), names) == (403, True, 200)
    for change, status in (
        (lambda said: said.replace(b"Host", b"host"), 200),
        (lambda said: said.replace(b"\r\n\r\n", b"\r\nA: b\r\n\r\n"), 200),
        (lambda said: said.replace(b"POST", b"PUT"), 405),
        (lambda said: said.replace(b'"attempt":1', b'"attempt":2'), 401),
        (lambda said: re.sub(rb"Proof: ....", b"Proof: abcd", said), 401),
    ):
        assert pair(clients, publishing(clients, change), names)[:2] == (status, False)
    assert pair(clients, publishing(clients, attempt="one"), names)[:2] == (422, False)
    assert pair(clients, publishing(clients, data=b"x" * 60_000), names)[:2] == (413, False)


def test_the_bytes_may_come_behind_the_head(
    clients: Clients, names: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java sends them in a packet of their own. A head in two pieces, or bytes in two pieces, go the long way."""
    monkeypatch.setattr(protocol, "_HALF_SECONDS", raw.DEADLINE_SECONDS)
    assert in_two(clients, putting(chunks=True), next(names), 0) == [False, True]
    assert in_two(clients, putting(chunks=True), next(names), 2) == [False]
    assert in_two(clients, putting(chunks=True), next(names), -2) == [False]
    head_and_more = in_two(clients, putting(chunks=True), next(names), len(b"15\r\n"))
    assert head_and_more == [False]


def test_a_head_does_not_wait_long_for_its_bytes(
    clients: Clients, names: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_HALF_SECONDS", 0)
    assert in_two(clients, putting(chunks=True), next(names), 0) == [False]


def test_a_client_that_ends_its_side_behind_the_head_gets_an_answer(
    clients: Clients, names: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_HALF_SECONDS", raw.DEADLINE_SECONDS)
    head, end, _ = putting(chunks=True)(clients.tree, next(names)).partition(b"\r\n\r\n")
    with raw.connected(str(clients.served.http.base_url)) as connection:
        connection.sendall(head + end)
        connection.shutdown(socket.SHUT_WR)
        answer = raw.answer(connection, "PUT")
    assert (answer.status_code, "inside the body" in answer.text) == (403, True)


def test_a_head_that_waits_for_its_bytes_is_not_idle(
    clients: Clients, names: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time within which the next request must begin does not end while its body is due."""
    monkeypatch.setattr(protocol, "_HALF_SECONDS", raw.DEADLINE_SECONDS)
    due: list[float | None] = []
    rest = SlowPeerGuard.rest

    def noted(self: SlowPeerGuard) -> None:
        rest(self)
        due.append(self._due)

    monkeypatch.setattr(SlowPeerGuard, "rest", noted)
    request = putting(chunks=True)(clients.tree, next(names))
    end = request.index(b"\r\n\r\n") + 4
    with raw.connected(str(clients.served.http.base_url)) as connection:
        connection.sendall(raw.head("GET", "/livez"))
        assert raw.answer(connection).status_code == 200
        clients.went.clear()
        due.clear()
        connection.sendall(request[:end])
        until(lambda: bool(clients.went), "the head came")
        assert clients.served.http.get("/livez").status_code == 200
        assert due[0] is None
        connection.sendall(request[end:])
        assert raw.answer(connection, "PUT").status_code == 201


def test_an_answer_that_cannot_be_made_is_a_fault_of_the_server(
    clients: Clients, names: Iterator[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    first, second = (renaming()(clients.tree, next(names)) for _ in range(2))
    monkeypatch.setattr(ShortAnswers, "made", fail)
    (status, _, told, behind) = clients.sent(first)
    assert (status, "see the service's log" in told, behind) == (403, True, 200)
    assert "failed unexpectedly and is answered as 500" in caplog.text
    monkeypatch.setattr(ShortAnswers, "_of", fail)
    with raw.connected(str(clients.served.http.base_url)) as connection, suppress(ConnectionResetError):
        connection.sendall(second)
        assert connection.recv(1) == b""
    assert "so the connection of its client is closed" in caplog.text


def test_the_same_is_said_of_what_is_no_http_behind_a_short_request(clients: Clients, names: Iterator[str]) -> None:
    def told(*before: bytes) -> tuple[int, str]:
        with raw.connected(str(clients.served.http.base_url)) as connection:
            connection.sendall(before[0] + creating()(clients.tree, next(names)))
            assert raw.answer(connection, "PUT").status_code == 307
            connection.sendall(b"\r\n" * 35_000)
            answer = raw.answer(connection)
            return answer.status_code, answer.text

    assert told(b"") == told(b"\r\n")

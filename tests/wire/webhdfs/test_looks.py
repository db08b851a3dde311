"""Looks of the usual form go the short way, and no others do; each is sent in both ways, as `twins` says."""

from __future__ import annotations

import re

import pytest

from milepost_server.http.access.tokens import Tokens
from tests.wire.support import raw
from tests.wire.support.api import Api
from tests.wire.webhdfs.twins import JOB, READER, STRANGER, Changing, Clients


def look(path: str, query: str = "op=GETFILESTATUS", **headers: str) -> bytes:
    return raw.head("GET", f"/webhdfs/v1/{path}?{query}", {"Accept": "*/*", "Connection": "keep-alive", **headers})


USUAL = {
    "a directory": (look(f"jobs/{JOB}/checkpoint"), 200),
    "a file": (look(f"jobs/{JOB}/checkpoint/commits/0"), 200),
    "with a slash at its end": (look(f"jobs/{JOB}/checkpoint/"), 200),
    "with a slash before it": (look(f"/jobs/{JOB}/checkpoint"), 200),
    "as Java asks": (look(f"jobs/{JOB}/checkpoint", "op=GETFILESTATUS&user.name=root"), 200),
    "a link": (look(f"jobs/{JOB}/checkpoint", "op=GETFILELINKSTATUS"), 200),
    "in lower case": (look(f"jobs/{JOB}/checkpoint", "op=getfilestatus"), 200),
    "a deleted file": (look(f"jobs/{JOB}/checkpoint/state/0/1/1.delta"), 404),
    "nothing": (look(f"jobs/{JOB}/nothing"), 404),
    "nothing of a job that is not there": (look("jobs/trains/nothing"), 404),
    "the root of a job": (look(f"jobs/{JOB}"), 200),
    "the root of a job that is not there": (look("jobs/trains"), 200),
    "all jobs": (look("jobs"), 200),
    "the root": (look(""), 200),
    "the snapshots": (look(f"jobs/{JOB}/.snapshot"), 200),
    "a snapshot that is not there": (look(f"jobs/{JOB}/.snapshot/@7/checkpoint"), 404),
    "what is in a directory": (look(f"jobs/{JOB}/checkpoint", "op=LISTSTATUS"), 200),
    "what is in an empty directory": (look(f"jobs/{JOB}/many/7", "op=LISTSTATUS"), 200),
    "which snapshots there are": (look(f"jobs/{JOB}/.snapshot", "op=LISTSTATUS"), 200),
    "the defaults": (look("", "op=GETSERVERDEFAULTS&user.name=root"), 200),
    "under an epoch": (look(f"jobs/{JOB}/checkpoint", **{f"X-Milepost-{JOB}-1": '""'}), 200),
    "without a field Connection": (raw.head("GET", f"/webhdfs/v1/jobs/{JOB}?op=GETFILESTATUS"), 200),
}


@pytest.mark.parametrize(("request_", "status"), USUAL.values(), ids=USUAL)
def test_a_usual_look_goes_the_short_way(clients: Clients, request_: bytes, status: int) -> None:
    (told, *_, behind), is_quick = clients.twins(request_)
    assert (told, is_quick, behind) == (status, True, 200)


UNUSUAL = {
    "a long directory": look(f"jobs/{JOB}/many", "op=LISTSTATUS"),
    "a file listed": look(f"jobs/{JOB}/checkpoint/commits/0", "op=LISTSTATUS"),
    "all jobs listed": look("jobs", "op=LISTSTATUS"),
    "nothing listed": look(f"jobs/{JOB}/nothing", "op=LISTSTATUS"),
    "another operation": look(f"jobs/{JOB}/checkpoint/commits/0", "op=GETFILEBLOCKLOCATIONS"),
    "an unknown operation": look(f"jobs/{JOB}", "op=GETNOTHING"),
    "two operations": look(f"jobs/{JOB}", "op=GETFILESTATUS&op=LISTSTATUS"),
    "no operation": look(f"jobs/{JOB}", "user.name=root"),
    "a query as long as one with a token": look(f"jobs/{JOB}", f"op=GETFILESTATUS&user.name={'a' * 231}"),
    "an empty query": look(f"jobs/{JOB}", ""),
    "an encoded letter": look(f"jobs/{JOB}/check%70oint"),
    "an encoded slash": look(f"jobs/{JOB}/checkpoint%2Fcommits"),
    "an empty part": look(f"jobs/{JOB}//checkpoint"),
    "a part that is a dot": look(f"jobs/{JOB}/./checkpoint"),
    "a part that is two dots": look(f"jobs/trains/../{JOB}"),
    "a part too many": look(f"jobs/{JOB}/{'a/' * 40}"),
    "elsewhere": look("user/root"),
    "no name of a job": look("jobs/.flights"),
    "a second question mark": look(f"jobs/{JOB}", "op=GETFILESTATUS?x"),
    "a fragment": look(f"jobs/{JOB}", "op=GETFILESTATUS#x"),
    "a long path": look(f"jobs/{JOB}/{'a' * 5000}"),
    "HEAD": look(f"jobs/{JOB}").replace(b"GET ", b"HEAD "),
    "GET in lower case": look(f"jobs/{JOB}").replace(b"GET ", b"get "),
    "HTTP/1.0": look(f"jobs/{JOB}").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "HTTP/1.2": look(f"jobs/{JOB}").replace(b"HTTP/1.1", b"HTTP/1.2"),
    "two blanks": look(f"jobs/{JOB}").replace(b" HTTP", b"  HTTP"),
    "a line that ends early": look(f"jobs/{JOB}").replace(b"HTTP/1.1\r\n", b"HTTP/1.1\n"),
    "the whole address": raw.head("GET", f"http://localhost/webhdfs/v1/jobs/{JOB}?op=GETFILESTATUS"),
    "a connection that ends": look(f"jobs/{JOB}", Connection="close"),
    "a connection that may end": look(f"jobs/{JOB}", Connection="keep-alive, close"),
    "its own id": look(f"jobs/{JOB}", **{"X-Request-Id": "mine"}),
    "an empty body": look(f"jobs/{JOB}", **{"Content-Length": "0"}),
    "a body": look(f"jobs/{JOB}", **{"Content-Length": "4"}) + b"\r\n\r\n",
    "a body in chunks": look(f"jobs/{JOB}", **{"Transfer-Encoding": "chunked"}) + b"0\r\n\r\n",
    "a coding that is not supported": look(f"jobs/{JOB}", **{"Transfer-Encoding": "gzip"}) + b"0\r\n\r\n",
    "another host": look(f"jobs/{JOB}", Host="elsewhere.example"),
    "two hosts": look(f"jobs/{JOB}", host="localhost"),
    "an offer": look(f"jobs/{JOB}", Upgrade="h2c", Connection="Upgrade"),
    "a field without a colon": look(f"jobs/{JOB}").replace(b"Accept: ", b"Accept "),
    "a blank before the colon": look(f"jobs/{JOB}").replace(b"Accept:", b"Accept :"),
    "a folded field": look(f"jobs/{JOB}").replace(b"Accept: */*", b"Accept: a\r\n b"),
    "a field with a zero": look(f"jobs/{JOB}").replace(b"*/*", b"\0"),
    "a line break in a field": look(f"jobs/{JOB}").replace(b"*/*", b"a\nX-B: c"),
    "an end in a field": look(f"jobs/{JOB}").replace(b"*/*", b"a\n\nGET"),
}
"""Requests that the parser and the routes answer; but for one that says that its body is empty."""


@pytest.mark.parametrize("request_", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_not_a_usual_look_is_left_alone(
    clients: Clients, request_: bytes, request: pytest.FixtureRequest
) -> None:
    _, is_quick = clients.twins(request_)
    assert is_quick is ("an empty body" in request.node.name)


def test_a_token_is_asked_for_each_time(guarded: Clients) -> None:
    def told(path: str, *authorization: str) -> tuple[int, bool]:
        headers = {"Authorization": authorization[0]} if authorization else {}
        (status, *_), is_quick = guarded.twins(look(path, **headers))
        return status, is_quick

    flights = f"jobs/{JOB}/checkpoint"
    assert told(flights, f"Bearer {READER}") == (200, True)
    assert told(flights, f"bearer {READER}") == (200, True)
    assert told("jobs", f"Bearer {STRANGER}") == (200, True)
    assert told(flights, f"Bearer {STRANGER}") == (403, False)
    for wrong in ((), ("Bearer nobodys-token-0123456789",), (f"Basic {READER}",), ("Bearer",), (READER,)):
        assert told(flights, *wrong) == (401, False)


def test_the_token_of_a_job_is_for_its_files_and_ends_with_its_client(guarded: Clients, changing: Changing) -> None:
    driver = Api.on(guarded.served.http, "trains")
    driver = driver.under(driver.granted())
    told = driver.call("POST", "/epoch/credentials").json()
    form = {"grant_type": "client_credentials", **{key: told[key] for key in ("client_id", "client_secret")}}
    token = guarded.served.http.post("/oauth2/token", data=form).json()["access_token"]
    own, other = (look(f"jobs/{job}", Authorization=f"Bearer {token}") for job in ("trains", JOB))
    # the first look of all with a token is left to the gate, which verifies the token
    guarded.sent(own)
    assert [guarded.twins(own)[0][0], guarded.twins(own)[1]] == [200, True]
    assert [guarded.twins(other)[0][0], guarded.twins(other)[1]] == [403, False]
    before, changing.now = changing.now, Tokens(changing.listed[1:])
    try:
        assert [guarded.twins(own)[0][0], guarded.twins(own)[1]] == [401, False]
    finally:
        changing.now = before


def test_an_answer_is_counted(clients: Clients) -> None:
    http_ = clients.served.http
    asked = re.compile(r'milepost_requests_total\{method="GET",status="200"\} (\S+)')

    def count() -> float:
        found = asked.search(http_.get("/metrics").text)
        return 0.0 if found is None else float(found[1])

    clients.twins(look(f"jobs/{JOB}"))
    before = count()
    _, is_quick = clients.twins(look(f"jobs/{JOB}"))
    # two looks, two requests behind them, and the question itself
    assert (is_quick, count() - before) == (True, 5)


def test_a_change_is_seen_by_the_next_look(clients: Clients) -> None:
    request = look(f"jobs/{JOB}/changes")
    assert clients.twins(request)[0][0] == 404
    assert clients.tree.create("changes", b"1").status_code == 201
    first, is_quick = clients.twins(request)
    assert (first[0], is_quick) == (200, True)
    assert clients.tree.create("changes", b"22", overwrite=True).status_code == 201
    second, _ = clients.twins(request)
    assert '"length":2' in second[2]
    assert first[2] != second[2]
    assert clients.tree.rename("changes", "changed").status_code == 200
    assert clients.twins(request)[0][0] == 404

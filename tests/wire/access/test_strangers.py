"""Without a token nothing but health and pages without data; no trick of paths or methods makes a reader a writer."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.access.conftest import TOKENS, As
from tests.wire.support import raw
from tests.wire.support.api import Api, connect
from tests.wire.support.facts import CALLS
from tests.wire.webhdfs.hadoop import Tree, refused

OPEN = {"/livez", "/readyz", "/leader", "/metrics", "/docs", "/openapi.json"}
PARAMETERS = {"{store}": "a-x", "{name}": "latest", "{session}": "s", "{savepoint}": "p", "{path}": "jobs/a-x/f"}


def filled(path: str) -> str:
    for parameter, value in PARAMETERS.items():
        path = path.replace(parameter, value)
    return path


def test_to_a_stranger_nothing_but_health_and_pages_is_shown(guarded: ServerProcess) -> None:
    tokens = (
        None,
        "Bearer of-nobody-0123456789",
        "Basic b2Y6YQ==",
        "Bearer e30.e30.e30",
        "Bearer milepost-job~0~x~1~1~0",
    )
    with connect(guarded.url) as http:
        for call in CALLS:
            for token in tokens:
                headers = {} if token is None else {"Authorization": token}
                answer = http.request(call.method, filled(call.path), headers=headers, params={"op": "LISTSTATUS"})
                if call.path in OPEN:
                    assert answer.status_code == 200, call
                elif call.path == "/oauth2/token":
                    assert answer.status_code == 400
                else:
                    assert answer.status_code == 401, call
        for path in OPEN:
            assert http.get(path).status_code == 200


TRICKS = [
    "//v1/stores/{store}/handles",
    "/v1//stores/{store}/handles",
    "/./v1/stores/{store}/handles",
    "/livez/../v1/stores/{store}/handles",
    "/livez/%2e%2e/v1/stores/{store}/handles",
    "/docs/../v1/stores/{store}/handles",
    "/%2Fv1/stores/{store}/handles",
    "/v1%2Fstores/{store}/handles",
    "/%76%31/stores/{store}/handles",
    "/v1/%73tores/{store}/handles",
    "/V1/stores/{store}/handles",
    "/v1/stores/{store}/handles/",
    "/v1/stores/{store}/handles;a=b",
    "/v1/stores/{store}%00/handles",
    "http://localhost/v1/stores/{store}/handles",
    "/v1/stores/{store}/handles#/livez",
    "/webhdfs/v1/jobs/{store}?op=LISTSTATUS",
    "//webhdfs/v1/jobs/{store}?op=LISTSTATUS",
    "/webhdfs/v1//jobs//{store}?op=LISTSTATUS",
    "/webhdfs/v1/jobs/a-x/../{store}?op=LISTSTATUS",
    "/webhdfs/v1/jobs/a-x/%2e%2e/{store}?op=LISTSTATUS",
    "/webhdfs/v1/jobs%2F{store}?op=LISTSTATUS",
    "/webhdfs/v1/%6aobs/{store}?op=LISTSTATUS&op=GETHOMEDIRECTORY",
]


METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "get")


@pytest.mark.parametrize("target", TRICKS)
def test_no_way_of_writing_a_path_shows_what_is_there(guarded: ServerProcess, b: Api, target: str) -> None:
    """A store of B's has something in it; neither a stranger nor a client of A's gets to see or change it."""
    Tree(b.http, b.store, 1).create("file-of-b", b"x")
    before = b.everything()
    line = target.format(store=b.store)
    for method, headers in product(METHODS, ({}, {"Authorization": f"Bearer {TOKENS['of-a']}"})):
        answer = raw.ask(guarded.url, raw.head(method, line, {**headers, "Content-Length": "0"}))
        assert answer.status_code >= 400
        assert "latest" not in answer.text
        assert "file-of-b" not in answer.text
    assert b.everything() == before


OVERRIDES = [
    {"X-HTTP-Method-Override": "DELETE"},
    {"X-HTTP-Method": "DELETE"},
    {"X-Method-Override": "PUT"},
    {"X-Original-URL": "/livez"},
    {"X-Rewrite-URL": "/livez"},
    {"X-Forwarded-Prefix": "/livez"},
]


def test_a_reader_writes_by_no_header_and_no_parameter(a: Api, as_client: As) -> None:
    tree = Tree(a.http, a.store, a.granted())
    tree.create("file", b"v1")
    a.under(1).added("latest")
    before = a.everything(), tree.names("")
    for name in ("reads-a", "reads-all"):
        reader = replace(a, http=as_client(name))
        for headers in OVERRIDES:
            for method, path in (("GET", "/handles/latest"), ("POST", "/handles/latest"), ("GET", "/locks")):
                answer = reader.with_headers({**headers, "Milepost-Epoch": "1"}).call(method, path)
                assert answer.status_code in (200, 403, 405)
            assert reader.http.get("/v1/stores", headers=headers, params={"_method": "POST"}).status_code == 422
        for op in ("CREATE", "MKDIRS", "RENAME", "DELETE", "APPEND", "create", "CREATE&op=OPEN"):
            path = (
                f"/webhdfs/v1/jobs/{a.store}/file?op={op}&overwrite=true&recursive=true&destination=/jobs/{a.store}/x"
            )
            for method in ("GET", "HEAD", "OPTIONS", "PUT", "POST", "DELETE"):
                answer = reader.http.request(method, path, headers={f"X-Milepost-{a.store}-1": "-"})
                assert answer.status_code in (400, 403), (method, op)
        data_node = replace(tree, http=a.http).ask("PUT", "late", "CREATE").headers["location"]
        assert reader.http.put(data_node, content=b"x").status_code == 403
    assert (a.everything(), tree.names("")) == before


def test_a_reader_makes_sure_of_a_directory_and_makes_none(a: Api, b: Api, as_client: As) -> None:
    tree = Tree(a.http, a.store, a.granted())
    tree.create("d/file", b"v1")
    for name in ("reads-a", "reads-all"):
        reader = Tree(as_client(name), a.store)
        for path in ("", "d"):
            assert reader.mkdirs(path).json() == {"boolean": True}
        refused(reader.mkdirs("d/file"), 403, "FileAlreadyExistsException")
        for path in ("new", "d/new"):
            refused(reader.mkdirs(path), 403, "AccessControlException")
    refused(Tree(as_client("reads-a"), b.store).mkdirs(""), 403, "AccessControlException")
    assert (tree.names(), tree.names("d")) == (["d"], ["file"])


@pytest.mark.parametrize(
    "lines",
    [
        ["Authorization: Bearer {a}", "Authorization: Bearer {ops}"],
        ["Authorization: Bearer of-nobody-0123456789", "Authorization: Bearer {ops}"],
        ["Authorization: Bearer {a},Bearer {ops}"],
        ["Authorization:\tBearer {a}\t{ops}"],
        ["Authorization : Bearer {ops}"],
        ["X-Authorization: Bearer {ops}"],
        ["Proxy-Authorization: Bearer {ops}"],
        ["Cookie: authorization=Bearer {ops}"],
    ],
    ids=[
        "two",
        "a wrong one first",
        "a list",
        "blanks",
        "a blank before the colon",
        "another",
        "a proxy's",
        "a cookie",
    ],
)
def test_a_second_token_in_a_request_gives_no_more(guarded: ServerProcess, b: Api, lines: list[str]) -> None:
    fields = "".join(line.format(a=TOKENS["of-a"], ops=TOKENS["ops"]) + "\r\n" for line in lines)
    request = f"GET /v1/stores/{b.store}/handles HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode()
    answer = raw.ask(guarded.url, request)
    assert answer.status_code in (400, 401, 403, 422)
    assert "latest" not in answer.text


def test_pipelined_requests_are_judged_one_by_one(guarded: ServerProcess, a: Api, b: Api) -> None:
    """A token counts for its own request, not for the connection."""
    a.added("latest")
    mine, theirs = ({"Authorization": f"Bearer {TOKENS[name]}"} for name in ("of-a", "of-b"))
    asked = [
        (raw.head("GET", f"/v1/stores/{a.store}/handles", mine), 200),
        (raw.head("GET", f"/v1/stores/{a.store}/handles", theirs), 403),
        (raw.head("GET", f"/v1/stores/{b.store}/handles", theirs), 200),
        (raw.head("GET", f"/v1/stores/{b.store}/handles"), 401),
        (raw.head("GET", f"/v1/stores/{b.store}/handles", mine), 403),
    ]
    with raw.connected(guarded.url) as connection:
        connection.sendall(b"".join(request for request, _ in asked))
        found = [answer.status_code for answer in raw.answers(connection, *["GET"] * len(asked))]
    assert found == [status for _, status in asked]


def test_what_a_token_is_takes_no_longer_the_longer_it_is(guarded: ServerProcess) -> None:
    """The head bounds it; no byte of it makes the server fail."""
    for token in ("x" * 60_000, "\xff" * 40, "e30." * 1000 + "e30", ".".join(["A" * 20_000] * 3), "\x01"):
        request = b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n" % token.encode(
            "latin-1"
        )
        assert raw.ask(guarded.url, request).status_code in (400, 401, 413, 422)
    assert httpx.get(f"{guarded.url}/livez", trust_env=False, timeout=60.0).status_code == 200
    assert "Traceback" not in guarded.logged()


def test_the_metrics_of_single_jobs_are_for_readers_of_all(a: Api, as_client: As, guarded: ServerProcess) -> None:
    """Others learn how many jobs there are, and that they do not see them."""
    a.granted()
    with connect(guarded.url) as stranger:
        unknown = stranger.get("/metrics", headers={"Authorization": "Bearer of-nobody-0123456789"})
        others = [stranger.get("/metrics"), unknown, as_client("of-a").get("/metrics")]
    for answer in others:
        assert answer.status_code == 200
        assert a.store not in answer.text
        (jobs,) = re.findall(r"^milepost_jobs (\S+)$", answer.text, re.MULTILINE)
        assert float(jobs) > 0
        assert f"\nmilepost_jobs_left_out {jobs}\n" in answer.text
    for name in ("reads-all", "ops"):
        assert f'\nmilepost_job_led{{store="{a.store}"}} 1.0\n' in as_client(name).get("/metrics").text


def test_the_names_of_damaged_records_are_for_readers_of_all(as_client: As, guarded: ServerProcess) -> None:
    """To others, and with a token that is not known, a line says only whether its part is well."""
    parts = ["leadership", "records", "pointers", "blobs"]
    with connect(guarded.url) as stranger:
        unknown = stranger.get("/readyz?verbose", headers={"Authorization": "Bearer of-nobody-0123456789"})
        others = [stranger.get("/readyz?verbose"), unknown, as_client("of-a").get("/readyz?verbose")]
    for answer in others:
        assert answer.status_code == 200
        assert answer.text == "".join(f"[+] {part}: ok\n" for part in parts)
    for name in ("reads-all", "ops"):
        assert "[+] leadership: leads at term" in as_client(name).get("/readyz?verbose").text

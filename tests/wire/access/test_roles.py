"""Each client may do what its line says, and sees nothing of the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milepost.operations import OPERATIONS
from milepost.operations.operation import RestOperation, Right
from testbed.server import ServerProcess
from tests.wire.access.conftest import TOKENS, As, lines
from tests.wire.support.api import Api, Json, connect, problem
from tests.wire.webhdfs.hadoop import Tree, refused


def tree_of(driver: Api) -> Tree:
    """The files of a driver's store, with the driver's own token."""
    return Tree(driver.http, driver.store, driver.epoch)


def told(document: Json | str) -> None:
    """Nothing in a refusal tells of what team B has."""
    for word in ("the driver of b", "the secret of b", "of-b"):
        assert word not in str(document)


OF_A_STORE = [
    pytest.param(operation, id=operation.call)
    for operation in OPERATIONS.values()
    if operation.right in (Right.READ, Right.WRITE)
]


def test_most_operations_are_of_a_store() -> None:
    assert len(OF_A_STORE) > 20


BODIES: Json = {
    "rollback": {"revision": 1},
    "clone": {"source": "a-x", "snapshot": "p"},
    "uploads": {"size": 1, "sha256": "0" * 64},
}


@pytest.mark.parametrize("operation", OF_A_STORE)
def test_no_call_reaches_the_store_of_another_team(a: Api, b: Api, as_client: As, operation: RestOperation) -> None:
    url = operation.path.format(store=b.store, name="latest", savepoint="p", state="words")
    seen = b.everything()
    for client, session in ((a.http, a.session), (a.http, b.session), (as_client("reads-a"), b.session)):
        headers = {"Milepost-Session": str(session), "Milepost-Epoch": "1", "If-Match": '"x"'}
        answer = client.request(operation.method, url, headers=headers, json=BODIES.get(url.rpartition("/")[2]))
        if operation.method == "HEAD":
            assert answer.status_code == 403
        else:
            document = problem(answer, 403, "forbidden")
            told(document)
            role = "reader" if operation.right is Right.READ else "writer"
            if client is a.http:
                doing = {"reader": "read", "writer": "write"}[role]
                detail = f"'of-a' may not {doing} the store {b.store!r}, which takes the role {role}"
                assert document["detail"] == detail
    assert {**b.everything(), "session": None} == {**seen, "session": None}


def test_who_may_read_reads_and_does_not_write(a: Api, as_client: As) -> None:
    a.added("latest")
    for name in ("reads-a", "reads-all"):
        reader = replace(a, http=as_client(name))
        assert reader.state("latest").content == b"state"
        assert reader.handles().status_code == reader.current().status_code == 200
        assert reader.call("POST", "/tree/verification").json()["intact"]
        for refusal in (reader.add("x"), reader.lock("latest"), reader.campaign(), reader.clear(), reader.remove("x")):
            problem(refusal, 403, "forbidden")


def test_only_stores_that_one_may_read_are_listed_whatever_the_page(a: Api, b: Api, as_client: As) -> None:
    names = [f"{a.store}-{letter}" for letter in "zyx"]
    for name in names:
        replace(a, store=name).added("latest")

    def listed(client: str, limit: int) -> list[str]:
        found: list[str] = []
        token: dict[str, Any] = {}
        while True:
            page = as_client(client).get("/v1/stores", params={"limit": limit, **token}).json()
            assert len(page["stores"]) <= limit
            found += [each["store"] for each in page["stores"]]
            if page["next"] is None:
                return found
            assert len(page["stores"]) == limit
            token = {"token": page["next"]}

    for limit in (1, 2, 1000):
        for client in ("of-a", "reads-a"):
            mine = listed(client, limit)
            assert sorted(names) == [name for name in mine if name.startswith(a.store)]
            assert {name[:2] for name in mine} == {"a-"}
        assert {*names, b.store} <= set(listed("reads-all", limit))
        assert b.store in listed("of-b", limit)


def test_a_session_is_its_owners(a: Api, b: Api, as_client: As) -> None:
    session = f"/v1/sessions/{b.session}"
    body = {"ttl": 900, "holder": "stolen", "session": b.session}
    for answer in (
        a.http.get(session),
        a.http.post(f"{session}/keepalive"),
        a.http.delete(session),
        a.http.post("/v1/sessions", json=body),
        replace(a, session=b.session).add("latest"),
        replace(a, session=b.session).lock("latest"),
        replace(a, session=b.session).campaign(),
        replace(a, session=b.session).keyed("k").lock_all(),
        as_client("reads-a").get(session),
    ):
        told(problem(answer, 403, "forbidden"))
    assert b.http.post(f"{session}/keepalive").status_code == 200
    assert as_client("reads-all").get(session).json()["locks"] == [{"store": b.store, "name": "latest"}]
    assert a.handles().json()["handles"] == []


def test_a_key_of_another_clients_session_tells_nothing(a: Api, b: Api) -> None:
    """The first answer is kept for whoever asks again; it has the holder in it."""
    body = {"ttl": 900, "holder": "the driver of b", "session": f"{b.session}-2"}
    assert b.http.post("/v1/sessions", json=body, headers={"Idempotency-Key": "k"}).status_code == 201
    again = {"Idempotency-Key": "k", "Milepost-Attempt": "2"}
    told(problem(a.http.post("/v1/sessions", json=body, headers=again), 403, "forbidden", "unknown"))
    assert b.http.post("/v1/sessions", json=body, headers=again).headers["milepost-replayed"] == "true"


def test_an_administrator_acts_in_every_session_and_the_audit_log_has_it(a: Api, b: Api, as_client: As) -> None:
    ops = as_client("ops")
    assert ops.post(f"/v1/sessions/{b.session}/keepalive").status_code == 200
    assert ops.get(f"/v1/sessions/{b.session}").status_code == 200
    assert replace(a, http=ops, session=b.session).add("latest").status_code == 201
    assert ops.delete(f"/v1/sessions/{b.session}").status_code == 204


def test_a_session_from_before_there_were_owners_stays_anybodys(tmp_path: Path, store: str) -> None:
    """It was opened where there were no tokens yet. Each client sees its locks in the stores that it may read."""
    with ServerProcess(tmp_path) as server, connect(server.url) as http:
        server.start()
        old = Api.on(http, f"a-{store}")
        old.added("latest")
        replace(old, store=f"b-{store}").added("latest")
        server.stop()
        (tmp_path / "tokens").write_text("\n".join(lines()))
        server.flags = ("--token-file", str(tmp_path / "tokens"))
        server.start()
        http.headers["Authorization"] = f"Bearer {TOKENS['of-a']}"
        assert http.post(f"/v1/sessions/{old.session}/keepalive").status_code == 200
        shown = http.get(f"/v1/sessions/{old.session}").json()
        assert shown["locks"] == [{"store": f"a-{store}", "name": "latest"}]
        assert old.add("more").status_code == 201


def test_who_writes_no_store_opens_no_session(as_client: As) -> None:
    for name in ("reads-a", "reads-all"):
        problem(as_client(name).post("/v1/sessions", json={"ttl": 900}), 403, "forbidden")


def test_files_of_another_team_by_no_way(a: Api, b: Api, as_client: As) -> None:
    theirs, mine = tree_of(b), tree_of(a.under(a.granted()))
    assert theirs.create("secret", b"the secret of b").status_code == 201
    assert theirs.create("large", b"x" * 50_000).status_code == 201
    assert mine.create("own", b"v1").status_code == 201
    for client in (a.http, as_client("reads-a")):
        tree = replace(theirs, http=client)
        for answer in (
            *(tree.ask("GET", "secret", op) for op in ("OPEN", "GETFILESTATUS", "LISTSTATUS", "GETFILEBLOCKLOCATIONS")),
            tree.ask("GET", "", "LISTSTATUS_BATCH"),
            tree.ask("GET", "absent", "GETFILESTATUS"),
            tree.ask("PUT", "new", "CREATE"),
            tree.ask("DELETE", "secret", "DELETE"),
            tree.ask("PUT", "secret", "RENAME", destination=f"/jobs/{a.store}/stolen"),
            tree.mkdirs("d"),
        ):
            told(refused(answer, 403, "AccessControlException"))
        assert "not supported" in refused(tree.ask("POST", "secret", "APPEND"), 403, "IOException")  # for nobody
        shown = client.get("/webhdfs/v1/jobs", params={"op": "LISTSTATUS"}).json()["FileStatuses"]["FileStatus"]
        assert {status["pathSuffix"][:2] for status in shown} == {"a-"}
        batch = client.get("/webhdfs/v1/jobs", params={"op": "LISTSTATUS_BATCH"}).text
        assert (a.store in batch, b.store in batch) == (True, False)
    root = a.http.get("/webhdfs/v1/", params={"op": "LISTSTATUS"}).json()["FileStatuses"]["FileStatus"]
    assert [status["pathSuffix"] for status in root] == ["jobs"]
    refused(
        mine.ask("PUT", "own", "RENAME", destination=f"/jobs/{b.store}/x", renameoptions="NONE"),
        403,
        "IOException",
    )


def test_a_permit_that_got_lost_opens_nothing_for_another_team(a: Api, b: Api) -> None:
    theirs = tree_of(b)
    theirs.create("large", b"x" * 50_000)
    data_node = theirs.ask("GET", "large", "OPEN").headers["location"]
    put = theirs.ask("PUT", "new", "CREATE").headers["location"]
    assert b.http.get(data_node).content == b"x" * 50_000
    told(refused(a.http.get(data_node), 403, "AccessControlException"))
    told(refused(a.http.put(put, content=b"of a"), 403, "AccessControlException"))
    moved = data_node.replace(b.store, a.store)
    refused(a.http.get(moved), 403, "AccessControlException")
    assert theirs.names("") == ["large"]


def test_no_clone_of_what_one_may_not_read(a: Api, b: Api, as_client: As) -> None:
    lead = a.under(a.granted())
    body = {"source": b.store, "snapshot": "@1"}
    told(problem(lead.call("POST", "/tree/clone", json=body), 403, "forbidden"))
    problem(lead.call("POST", "/tree/clone", json={**body, "source": f"{a.store}-2"}), 404, "not-exist")
    problem(replace(lead, http=as_client("ops")).call("POST", "/tree/clone", json=body), 404, "not-exist")


def test_an_upload_is_its_stores(a: Api, b: Api) -> None:
    """Where blobs cannot sign there are none; an id is looked for in the store of the path alone."""
    reference = b'{"upload": "9f86d081884c7d659a2feaa0c55ad015", "size": 1, "sha256": "%s"}' % (b"0" * 64)
    kind = {"Content-Type": "application/vnd.milepost.upload+json"}
    problem(a.call("POST", "/handles/x", content=reference, headers=kind), 404, "upload-unknown")
    told(
        problem(replace(a, store=b.store).call("POST", "/handles/x", content=reference, headers=kind), 403, "forbidden")
    )


def test_a_rollback_needs_the_driver_or_an_administrator(a: Api, as_client: As) -> None:
    lead = a.under(a.granted())
    beside = a.other().under(1)
    problem(beside.call("POST", "/tree/rollback", json={"revision": 7}), 409, "fenced")
    problem(beside.keyed("k", 2).call("POST", "/tree/rollback", json={"revision": 7}), 409, "fenced", "unknown")
    problem(lead.call("POST", "/tree/rollback", json={"revision": 7}), 404, "not-exist")
    ops = Api.on(as_client("ops"), a.store).under(1)
    problem(ops.call("POST", "/tree/rollback", json={"revision": 7}), 404, "not-exist")


def test_who_one_is(as_client: As) -> None:
    expected = {
        "of-a": {"name": "of-a", "reader": [], "writer": ["a-*"], "admin": False},
        "reads-all": {"name": "reads-all", "reader": ["*"], "writer": [], "admin": False},
        "ops": {"name": "ops", "reader": ["*"], "writer": ["*"], "admin": True},
    }
    for name, document in expected.items():
        assert as_client(name).get("/v1/whoami").json() == document


def test_what_is_not_there_is_told_to_everybody_who_is_known(a: Api) -> None:
    problem(a.http.get("/v1/nowhere"), 404, "no-route")
    problem(a.http.request("PATCH", "/v1/stores"), 405, "method-not-allowed")

"""Records that cannot be read are reported, and neither hide nor block the others."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from milepost.cli.backup.archive import opened
from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.client.cli.conftest import ended, started
from tests.wire.support.api import Api, connect, problem
from tests.wire.support.damage import damage_record, name_blob
from tests.wire.support.shapes import example_of, same_shape

DAMAGE = {
    "no-json": b"\x00\xff not JSON",
    "empty": b"",
    "of-another": b'{"name": "other"}',
    "newer-schema": b'{"name":"newer-schema","version":"v","blob":"b","size":1,"sha256":"","created":"","updated":"",'
    b'"born":1,"changed":1,"schema":999}',
}
NAMES = sorted(DAMAGE)


@dataclass(frozen=True)
class Damaged:
    """What is left on a server after damage: in ``handles`` the records of some handles cannot be read, in ``climbing``
    they name bytes outside of the blobs, in ``store`` that of the store itself cannot be read, in ``session`` that of
    the session that acts.
    """

    handles: Api
    climbing: Api
    store: Api
    session: Api


CLIMBING = ["../../../../etc/hostname", "/etc/hostname", "a/../../b", ""]
"""Where no blob can be, though a record says so."""


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with ServerProcess(tmp_path_factory.mktemp("damaged"), *ALL_AS_BLOBS) as server:
        with connect(server.start().url) as http:
            apis = Damaged(*(Api.on(http, store) for store in ("handles", "climbing", "store", "session")))
            for number in range(len(CLIMBING)):
                apis.climbing.added(f"a{number}")
            for name in ("a", *DAMAGE, "z"):
                apis.handles.added(name, Milepost_Label_batch="7")
            apis.store.under(apis.store.granted()).added("a")
            apis.session.added("a")
            job = Api.on(http, "job")
            job.under(job.granted()).call("PUT", "/files/checkpoint/commits/0", content=b"v1")
        server.stop()
        for name, value in DAMAGE.items():
            damage_record(server, f"stores/handles/handles/{name}", value)
        for number, blob in enumerate(CLIMBING):
            name_blob(server, f"stores/climbing/handles/a{number}", blob)
        damage_record(server, "stores/store", b"{")
        damage_record(server, f"sessions/{apis.session.session}", b"[]")
        damage_record(server, "stores/job/history/batches-1", b"{")
        with connect(server.start().url) as http:
            again = (apis.handles, apis.climbing, apis.store, apis.session)
            yield Damaged(*(replace(api, http=http) for api in again))


def test_lock_all_reports_them_beside_the_others(damaged: Damaged) -> None:
    response = damaged.handles.lock_all()
    assert response.status_code == 200
    assert [record["name"] for record in response.json()["handles"]] == ["a", "z"]
    assert [entry["name"] for entry in response.json()["corrupt"]] == NAMES
    assert all(entry.keys() == {"name", "reason"} and entry["reason"] for entry in response.json()["corrupt"])


def test_a_page_of_a_history_hides_no_other(damaged: Damaged, tmp_path: Path) -> None:
    http = damaged.handles.http
    told = http.get("/v1/jobs/job/history").json()
    assert [entry["kind"] for entry in told["entries"]] == ["epoch-granted"]
    assert [entry["name"] for entry in told["corrupt"]] == ["batches-1"]
    page = http.get("/openapi.json").json()
    example = example_of(page, "GET", "/v1/jobs/{store}/history", 200)["corrupt"]
    same_shape(example, told["corrupt"], "corrupt")
    assert http.get("/v1/jobs/job").json()["damaged"] == 1
    path = tmp_path / "backup.tar"
    end = ended(started(str(http.base_url), "backup", str(path), "--store", "job"))
    assert end.returncode == 1
    (line,) = (line for line in end.stderr.decode().splitlines() if "history" in line)
    assert line.startswith("not saved: history of job: batches-1: ")
    with opened(path, io.BytesIO(), lambda _: None) as backup:
        (record,) = backup.stores()
    kinds = [entry.kind for entry in record.history]
    assert (kinds[0], kinds.count("damaged")) == ("epoch-granted", 1), "what can be read is saved"


def test_the_lists_of_stores_and_of_sessions_tell_of_them(damaged: Damaged) -> None:
    http = damaged.handles.http
    stores = {row["store"]: row for row in http.get("/v1/stores").json()["stores"]}
    assert stores["handles"]["damaged"] == len(NAMES)
    assert stores["session"]["damaged"] == 0
    hurt = stores["store"]
    assert [hurt[name] for name in ("damaged", "epoch", "session", "holder", "since")] == [1, None, None, None, None]
    found, page = [], http.get("/v1/sessions?limit=1").json()
    while True:
        assert len(page["sessions"]) + len(page["corrupt"]) == 1
        found += [(each["name"], bool(each["reason"])) for each in page["corrupt"]]
        if page["next"] is None:
            break
        page = http.get("/v1/sessions", params={"limit": 1, "token": page["next"]}).json()
    assert found == [(damaged.session.session, True)]


def test_listings_name_them_on_their_page(damaged: Damaged) -> None:
    listed = damaged.handles.handles().json()
    assert [record["name"] for record in listed["handles"]] == ["a", "z"]
    assert [entry["name"] for entry in listed["corrupt"]] == NAMES
    found, page = [], damaged.handles.handles(limit=1).json()
    while True:
        assert len(page["handles"]) + len(page["corrupt"]) == 1
        found += [entry["name"] for entry in (*page["handles"], *page["corrupt"])]
        if page["next"] is None:
            break
        page = damaged.handles.handles(limit=1, token=page["next"]).json()
    assert found == ["a", *NAMES, "z"]


def test_the_page_tells_what_such_listings_look_like(damaged: Damaged) -> None:
    api = damaged.handles
    page = api.http.get("/openapi.json").json()
    answers = {("GET", "/handles"): api.handles(limit=len(NAMES) + 1), ("POST", "/locks"): api.lock_all()}
    for (method, path), response in answers.items():
        example = example_of(page, method, f"/v1/stores/{{store}}{path}", 200)
        same_shape(example, response.json(), path, null={"epoch"})


@pytest.mark.parametrize("name", NAMES)
def test_each_is_corrupt_to_anyone_who_asks_for_it_and_no_lock_is_left(damaged: Damaged, name: str) -> None:
    api = damaged.handles
    before = api.everything()
    for response in (api.lock(name), api.get(name), api.state(name), api.replace(name, "v")):
        problem(response, 500, "corrupt")
    problem(api.add(name), 409, "already-exists")
    assert api.exists(name).status_code == 500
    assert api.everything() == before
    assert [lock["name"] for lock in before["session"]["locks"]] == ["a", "z"]
    assert api.state("a").content == b"state"


def test_they_can_be_removed_and_cleared(damaged: Damaged) -> None:
    api = damaged.handles
    assert api.remove(NAMES[0]).json() == {"removed": True}
    assert api.added(NAMES[0])["name"] == NAMES[0]
    assert api.clear().json() == {"cleared": len(NAMES) + 2}
    assert api.handles().json() == {"handles": [], "corrupt": [], "next": None}


@pytest.mark.parametrize("number", range(len(CLIMBING)), ids=CLIMBING)
def test_a_record_that_names_bytes_elsewhere_is_corrupt_and_can_be_removed(damaged: Damaged, number: int) -> None:
    api, name = damaged.climbing, f"a{number}"
    problem(api.state(name), 500, "corrupt")
    problem(api.state(name, Range="bytes=0-1"), 500, "corrupt")
    assert api.remove(name).json() == {"removed": True}
    assert api.added(name)["name"] == name
    assert api.state(name).content == b"state"


def test_nothing_is_written_in_a_store_whose_epoch_is_lost(damaged: Damaged) -> None:
    api = damaged.store
    for response in (api.add("b"), api.under(1).add("b"), api.under(1).remove("a"), api.under(1).clear()):
        problem(response, 500, "corrupt")
    for response in (api.campaign(), api.resign(), api.current(), api.lock_all()):
        problem(response, 500, "corrupt")


def test_nothing_is_read_of_a_store_of_which_nobody_knows_what_was_cleared(damaged: Damaged) -> None:
    api = damaged.store
    for response in (api.get("a"), api.state("a"), api.handles()):
        assert api.store in problem(response, 500, "corrupt")["detail"]
    assert api.exists("a").status_code == 500


def test_the_list_of_stores_tells_of_it_what_is_known(damaged: Damaged) -> None:
    rows = {row["store"]: row for row in damaged.store.http.get("/v1/stores").json()["stores"]}
    assert (rows[damaged.store.store]["handles"], rows[damaged.store.store]["epoch"]) == (1, None)
    assert rows[damaged.handles.store]["epoch"] == 0


def test_a_session_that_cannot_be_read_neither_acts_nor_holds(damaged: Damaged) -> None:
    api = damaged.session
    problem(api.http.get(f"/v1/sessions/{api.session}"), 500, "corrupt")
    problem(api.http.post(f"/v1/sessions/{api.session}/keepalive"), 500, "corrupt")
    problem(api.add("b"), 500, "corrupt")
    assert api.other().remove("a").json() == {"removed": True}

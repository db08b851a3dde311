"""A job is moved from one cell to another with all that it has, and is in one of them wherever the move ends."""

from __future__ import annotations

import hashlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import milepost
from milepost.core import moving as steps
from milepost.core.calls import answers
from milepost.core.calls.request import json_body
from milepost.core.store_calls import JSON
from milepost.errors import Corrupt, EpochHeld, Fenced, InvalidRequest, JobElsewhere, NotExist
from milepost.moving import _temporary, move
from milepost.operations.handles import BEGIN_ARRIVAL, WRITE_RECORDS
from milepost.standby import Standby
from testbed.ports import Port
from tests.client.conftest import Service, cell, eventually
from tests.client.test_cells import job_of, led, listed

LARGE = b"0123456789abcdef" * 160 * 1024  # 2.5 MiB


@pytest.fixture
def client(cells: dict[str, Service]) -> Any:
    with milepost.Client(listed(**cells), timeout=60.0) as made:
        yield made


@pytest.fixture
def job(client: milepost.Client) -> str:
    """A job that begins in cell a, with all kinds of things; its epoch is 1, and no driver leads it."""
    name = job_of("a", prefix=f"move-{uuid.uuid4().hex[:6]}")
    fill(client, name)
    return name


def fill(client: milepost.Client, name: str) -> None:
    with client.of_job(name, begin=True) as one, one.session(holder="driver") as session:
        store = session.store(name)
        store.campaign()
        store.add_and_lock("latest", b"small", labels={"batch": "1"})
        store.add_and_lock("large", LARGE)
        store.release_all()
        files = store.files
        for batch in range(3):
            files.write(f"checkpoint/state/{batch}.delta", b"state %d" % batch)
            files.write("checkpoint/metadata", b"meta %d" % batch)
            files.write(f"checkpoint/commits/{batch}", b"v1")
        files.write("checkpoint/state/large", LARGE)
        files.make_savepoint("kept")
        files.delete("checkpoint/state/0.delta")
        files.write("checkpoint/commits/3", b"v1")
        files.write("checkpoint/state/.4.delta.tmp", b"left behind")
        store.resign()


def seen(client: milepost.Client, name: str) -> dict[str, Any]:
    """What a client sees of a job, but for what the move itself adds."""
    store = client.store(name)
    kept = store.files.snapshots()
    places = ["", ".snapshot/kept", *(f".snapshot/{each.name}" for each in kept.snapshots)]
    listed_: dict[str, Any] = {}
    for place in places:
        for each in milepost.files.walk(store.files, place):
            if each.path.endswith(".tmp"):
                continue  # it ends with the next epoch
            content = None if each.directory else store.files.read(each.path)
            listed_[each.path] = (each.version, each.modified, each.epoch, content)
    history = [each for each in client.job_history(name) if "epoch" not in each.kind and each.kind != "moved"]
    return {
        "handles": {each.name: (each, store.read(each.name)) for each in store.get_all_handles()},
        "files": listed_,
        "snapshots": kept,
        "history": history,
    }


def here_only(cells: dict[str, Service], name: str, cell: str) -> None:
    """One cell says that the job is there, and the others that it is not."""
    for each, service in cells.items():
        with milepost.Client(service.url) as one:
            if each == cell:
                one.job_info(name)
                assert name in [found.job for found in one.jobs()]
            else:
                with pytest.raises((JobElsewhere, NotExist)):
                    one.job_info(name)
                assert name not in [found.job for found in one.jobs()]


def test_a_job_moves_with_all_that_it_has(client: milepost.Client, cells: dict[str, Service], job: str) -> None:
    before = seen(client, job)
    assert before["handles"].keys() == {"latest", "large"}
    assert len(before["snapshots"].snapshots) == 4
    moved = move(client, job, "b", holder="mover")
    assert moved is not None
    assert (moved.source, moved.target, moved.epoch) == ("a", "b", 2)
    assert moved.bytes >= 2 * len(LARGE)
    here_only(cells, job, "b")
    assert seen(client, job) == before
    told = next(iter(client.job_history(job)))
    assert (told.kind, told.source, told.epoch) == ("moved", "a", 2)
    assert move(client, job, "b") is None
    assert led(client, job) == 3


def test_a_job_moves_back_and_forth(client: milepost.Client, cells: dict[str, Service], job: str) -> None:
    """What it left in a cell at an earlier stay does not come back, and none of its epochs is granted twice."""
    expected, epoch = seen(client, job), 1
    for to in ("b", "a", "b", "a"):
        moved = move(client, job, to)
        assert moved is not None
        assert moved.epoch == epoch + 1
        here_only(cells, job, to)
        assert seen(client, job) == expected
        with client.of_job(job).session() as session:
            store = session.store(job)
            epoch = store.campaign().epoch
            assert epoch == moved.epoch + 1
            store.files.write("checkpoint/cell", to.encode())
            store.files.write(f"checkpoint/{epoch}", b"new")
            store.files.delete("checkpoint/metadata" if epoch == 3 else f"checkpoint/{epoch - 2}")
            store.add_and_lock(f"of-{epoch}", b"state")
            store.release_all()
            store.resign()
        expected = seen(client, job)
    assert {each.name for each in client.store(job).get_all_handles()} == {
        "latest",
        "large",
        *(f"of-{n}" for n in (3, 5, 7, 9)),
    }


def test_a_late_driver_and_a_late_client_are_sent_on(
    client: milepost.Client, cells: dict[str, Service], job: str
) -> None:
    with milepost.Client(cells["a"].url) as old, old.session(holder="late") as session:
        late = session.store(job).under(1)
        with milepost.Client(listed(**cells)) as other:
            assert other.job_info(job).epoch.epoch == 1  # and remembers the cell
            move(client, job, "b")
            assert other.job_info(job).epoch.epoch == 2
        for call in (
            lambda: late.add_and_lock("h", b"late"),
            lambda: late.files.write("checkpoint/late", b"late"),
            lambda: late.get_and_lock("latest"),
            lambda: late.campaign(0),
            lambda: late.read("latest"),
            lambda: old.job_info(job),
            lambda: old.stop_job(job),
            lambda: list(old.job_history(job)),
            lambda: next(old.job_events(job, timeout=10.0)),
            lambda: Standby(old, "late", job, 15.0, 60.0).lead(),
        ):
            with pytest.raises(JobElsewhere, match="was moved to the cell 'b'") as sent:
                call()
            assert sent.value.extras == {"cell": "b", "epoch": 2}


def test_a_job_that_is_led_or_locked_stays(client: milepost.Client, cells: dict[str, Service], job: str) -> None:
    with client.of_job(job).session(holder="driver") as session:
        session.store(job).campaign()
        with pytest.raises(EpochHeld):
            move(client, job, "b")
        session.store(job).resign()
        session.store(job).get_and_lock("latest")
        with pytest.raises(EpochHeld, match="hold locks on 'latest'"):
            move(client, job, "b")
    here_only(cells, job, "a")
    with pytest.raises(InvalidRequest, match="there is no cell 'c'"):
        move(client, job, "c")
    for begins in cells:
        with pytest.raises(NotExist):
            move(client, job_of(begins, prefix="nosuch"), "b")
    assert move(client, job, "b") is not None


class Mover:
    """The steps of a move, one by one, as a mover that is killed in between leaves them."""

    def __init__(self, client: milepost.Client, job: str, to: str) -> None:
        cells = client.by_cell()
        self.here = client.of_job(job)
        self.leaving, self.arriving = (each.session(holder="mover", ttl=60.0) for each in (self.here, cells[to]))
        self.store = self.leaving.store(job)
        self.epoch = self.store.campaign().epoch
        self.id, self.to, self.run = uuid.uuid4().hex, to, self.store._driver.run
        self.seal = self.id  # none is known before the tombstone is set
        self.source, self.target = self.store._operations, self.arriving.store(job)._operations

    def freeze(self) -> None:
        self.run(steps.freeze(self.source, self.id, self.to))

    def copy(self) -> None:
        self.run(steps.copy(self.source, self.target, self.id, self.here.cell, _temporary))

    def leave(self) -> None:
        self.seal = self.run(steps.leave(self.source, self.id))

    def finish(self) -> None:
        self.run(steps.finish(self.target, self.seal))

    def dies(self) -> None:
        for session in (self.leaving, self.arriving):
            session.close()


@pytest.mark.parametrize("last", ["freeze", "copy", "leave", "finish"])
def test_a_mover_that_is_killed_leaves_the_job_in_one_cell(
    client: milepost.Client, cells: dict[str, Service], job: str, last: str
) -> None:
    before = seen(client, job)
    mover = Mover(client, job, "b")
    for step in ("freeze", "copy", "leave", "finish"):
        getattr(mover, step)()
        if step == last:
            break
    mover.dies()
    gone = last in ("leave", "finish")
    with milepost.Client(listed(**cells), timeout=60.0) as driver:
        assert led(driver, job) == 3
        assert driver.of_job(job).cell == ("b" if gone else "a")
    here_only(cells, job, "b" if gone else "a")
    assert seen(client, job) == before
    moved = move(client, job, "b")
    assert (moved is None) is gone
    here_only(cells, job, "b")
    assert seen(client, job) == before


def test_a_frozen_job_takes_nothing_but_the_move(client: milepost.Client, cells: dict[str, Service], job: str) -> None:
    mover = Mover(client, job, "b")
    mover.freeze()
    with milepost.Client(cells["a"].url) as one, one.session(holder="other") as session:
        other = session.store(job)
        for call in (
            lambda: other.get_and_lock("latest"),
            lambda: one.stop_job(job, savepoint="mine"),
            lambda: mover.store.files.write("checkpoint/x", b"x"),
            lambda: mover.store.add_and_lock("x", b"x"),
        ):
            with pytest.raises(EpochHeld, match="is being moved to the cell 'b'"):
                call()
        assert other.read("latest") == b"small"
        mover.dies()
        assert other.campaign().epoch == 3
        other.get_and_lock("latest")


@pytest.mark.parametrize("late", ["freeze", "copy", "leave", "finish"])
def test_a_mover_that_wakes_after_another_one_changes_nothing(
    client: milepost.Client, cells: dict[str, Service], job: str, late: str
) -> None:
    """Its session ended while it slept, and another mover has moved the job meanwhile."""
    first = Mover(client, job, "b")
    order = ["freeze", "copy", "leave", "finish"]
    for step in order[: order.index(late)][:2]:
        getattr(first, step)()
    client.end_session(first.leaving.id)
    before = seen(client, job)
    if late != "finish":
        assert move(client, job, "b") is not None
        here_only(cells, job, "b")
    with pytest.raises((Fenced, JobElsewhere, milepost.SessionLost)):
        getattr(first, late)()
    here_only(cells, job, "b" if late != "finish" else "a")
    assert seen(client, job) == before


def test_a_late_begin_does_not_replace_the_copy_that_a_tombstone_names(
    client: milepost.Client, cells: dict[str, Service], job: str
) -> None:
    """The request of a mover that slept arrives between the tombstone of another one and the end of its move."""
    first = Mover(client, job, "b")
    first.freeze()
    client.end_session(first.leaving.id)
    second = Mover(client, job, "b")
    second.freeze()
    second.copy()
    second.leave()
    body = {"move": first.id, "source": "a", "epoch": first.epoch, "departing": {"revision": 1, "sealed": "0" * 64}}
    with pytest.raises(Fenced, match="is not above that"):
        first.run(arrival(first, body))
    with milepost.Client(listed(**cells), timeout=60.0) as driver:
        assert led(driver, job) == 4
    here_only(cells, job, "b")


def arrival(mover: Mover, body: dict[str, Any]) -> Any:
    return mover.target.send(*mover.target.at(BEGIN_ARRIVAL), answers.whatever, JSON, json_body(body))


def test_a_driver_that_stands_by_leads_in_the_new_cell(
    client: milepost.Client, cells: dict[str, Service], job: str
) -> None:
    mover = Mover(client, job, "b")
    with ThreadPoolExecutor(1) as threads, milepost.Client(listed(**cells), timeout=60.0) as own:
        standby = Standby(own, "standby", job, 15.0, 120.0)
        waiting = threads.submit(standby.lead)
        eventually(lambda: client.job_info(job).standby_count == 1)
        for step in ("freeze", "copy", "leave", "finish"):
            getattr(mover, step)()
        led_ = waiting.result(120)
        assert (led_.store.epoch, led_.client.cell) == (3, "b")
        led_.store.files.write("checkpoint/goes-on", b"on")
        standby.resign()
    here_only(cells, job, "b")


def test_a_client_with_yesterdays_cell_moves_the_job_from_where_it_is(
    client: milepost.Client, cells: dict[str, Service], job: str
) -> None:
    with milepost.Client(listed(**cells), timeout=60.0) as other:
        assert other.job_info(job).epoch.epoch == 1
        move(client, job, "b")
        assert move(other, job, "a") is not None
    here_only(cells, job, "a")


def test_a_watch_ends_at_the_old_cell_and_goes_on_at_the_new_one(
    client: milepost.Client, cells: dict[str, Service], job: str
) -> None:
    with ThreadPoolExecutor(1) as threads, milepost.Client(listed(**cells), timeout=60.0) as own:
        events = own.job_events(job, existing=True)
        first = [next(events) for _ in client.job_history(job)]
        waiting = threads.submit(next, events)
        move(client, job, "b")
        kinds = {waiting.result(120).kind}
        led(client, job)
        while "epoch-granted" not in kinds or len(first) < 20:
            first.append(next(events))
            kinds.add(first[-1].kind)
            if first[-1].epoch == 3 and first[-1].kind == "epoch-granted":
                break
        assert first[-1].epoch == 3


@pytest.mark.later
def test_blobs_that_an_earlier_leader_has_put_are_put_again(tmp_path: Path) -> None:
    """No record names them yet, so the next leader may have collected them."""
    with ExitStack() as stack:
        port = Port()
        a = stack.enter_context(cell(tmp_path / "a", "a", "a,b"))
        first = stack.enter_context(ExitStack())
        b = first.enter_context(cell(tmp_path / "b", "b", "a,b", port))
        client = stack.enter_context(milepost.Client(listed(a=a, b=b), timeout=60.0))
        name = job_of("a")
        fill(client, name)
        before = seen(client, name)
        mover = Mover(client, name, "b")
        mover.freeze()
        page = mover.run(steps._page(mover.source, None, None))
        mover.run(steps._arrive(mover.source, mover.target, mover.id, "a", page.departing, None))
        done = steps.Copied()
        for blob in steps._blobs(page.records):
            done.keys[blob.key] = mover.run(
                steps._copy_blob(mover.source, mover.target, mover.id, blob, _temporary, None)
            )
        put, blobs = dict(done.keys), tmp_path / "b" / "blobs"
        first.close()
        for file in [each for each in blobs.rglob("*") if each.is_file() and each.stat().st_size]:
            if any(str(file).endswith(key.rpartition("/")[2]) for key in put.values()):
                file.unlink()  # as the collector of the next leader does
        stack.enter_context(cell(tmp_path / "b", "b", "a,b", port))
        mover.run(steps._write(mover.source, mover.target, mover.id, page, done, _temporary, None))
        assert not {*put.values()} & {*done.keys.values()}
        mover.copy()
        mover.leave()
        mover.finish()
        assert seen(client, name) == before


GOOD_HANDLE: dict[str, Any] = {
    "name": "h",
    "version": "v.1",
    "blob": "",
    "size": 1,
    "sha256": hashlib.sha256(b"x").hexdigest(),
    "created": "2026-01-01T00:00:00.000Z",
    "updated": "2026-01-01T00:00:00.000Z",
    "born": 1,
    "changed": 1,
    "data": "eA==",
    "schema": 2,
}
GOOD_ENTRY: dict[str, Any] = {"born": 1, "modified": "2026-01-01T00:00:00.000Z", "size": 1, "data": "eA=="}
GOOD_ENTRY |= {"sha256": GOOD_HANDLE["sha256"]}
GOOD_FILE: dict[str, Any] = {"path": "d/f", "entries": [GOOD_ENTRY], "schema": 1}
WRONG: list[tuple[str, dict[str, Any]]] = [
    *(("handle", {**GOOD_HANDLE, "name": name}) for name in ("a/b", "..", "", "h" * 201)),
    *(("handle", {**GOOD_HANDLE, **wrong}) for wrong in ({"schema": 1}, {"schema": 9}, {"size": -1}, {"size": 2})),
    *(("handle", {**GOOD_HANDLE, **wrong}) for wrong in ({"data": "eQ=="}, {"born": 0}, {"changed": 2**60})),
    *(("handle", {**GOOD_HANDLE, **wrong}) for wrong in ({"gone": True}, {"removing": True}, {"sha256": "x"})),
    (
        "handle",
        {**{name: value for name, value in GOOD_HANDLE.items() if name != "data"}, "blob": "other", "schema": 1},
    ),
    *(("file", {**GOOD_FILE, "path": path}) for path in ("", "../../x", "/x//y", ".snapshot/x/y", "x/", "a\x00b")),
    ("file", {**GOOD_FILE, "entries": []}),
    ("file", {**GOOD_FILE, "entries": [GOOD_ENTRY, GOOD_ENTRY]}),
    ("file", {**GOOD_FILE, "entries": [{**GOOD_ENTRY, "died": 1}]}),
    ("file", {**GOOD_FILE, "entries": [{**GOOD_ENTRY, "start": 0}]}),
    ("file", {**GOOD_FILE, "entries": [{**GOOD_ENTRY, "born": -1}]}),
    *(("page", {"name": name, "schema": 1}) for name in ("a/b", "acts", "acts-x", "other-1", "acts-1/../acts-2")),
    ("page", {"name": "acts-1", "entries": [{"at": "x", "revision": 2**60}], "schema": 1}),
    ("tree", {"name": "t", "cuts": [{"directory": "d", "batch": 1, "revision": 2**60}], "schema": 1}),
    ("session", {"id": "s"}),
    ("handle", {}),
]


def test_what_no_record_can_be_does_not_arrive(client: milepost.Client, cells: dict[str, Service], job: str) -> None:
    mover = Mover(client, job, "b")
    mover.freeze()
    page = mover.run(steps._page(mover.source, None, None))
    mover.run(steps._arrive(mover.source, mover.target, mover.id, "a", page.departing, None))

    def write(kind: str, record: dict[str, Any]) -> None:
        wrong = steps._Page({}, [{"kind": kind, "record": record}], None)
        body = json_body({"move": mover.id, "records": wrong.records, "blobs": {}})
        mover.run(mover.target.send(*mover.target.at(WRITE_RECORDS), answers.whatever, JSON, body))

    for kind, record in (("handle", GOOD_HANDLE), ("file", GOOD_FILE)):
        write(kind, record)
    for kind, record in WRONG:
        with pytest.raises(InvalidRequest):
            write(kind, record)
    with pytest.raises(Corrupt, match="the job stays there"):
        mover.run(steps.copy(mover.source, mover.target, mover.id, "a", _temporary))
    mover.dies()
    assert move(client, job, "b") is not None
    assert {each.name for each in client.store(job).get_all_handles()} == {"latest", "large"}
    here_only(cells, job, "b")


def test_an_abandoned_copy_with_higher_revisions_is_in_no_ones_way(
    client: milepost.Client, cells: dict[str, Service], job: str
) -> None:
    """The old cell has had many more changes than the new one."""
    with client.of_job(job).session() as session:
        store = session.store(job)
        store.campaign()
        for number in range(300):
            store.files.write("checkpoint/again", b"%d" % number)
        store.add_and_lock("soon-gone", b"state")
        store.release_all()
        store.resign()
    mover = Mover(client, job, "b")
    mover.freeze()
    mover.copy()
    mover.dies()
    with client.of_job(job).session() as session:
        store = session.store(job)
        store.campaign()
        store.release_and_try_remove("soon-gone")
        store.resign()
    before = seen(client, job)
    assert move(client, job, "b") is not None
    assert seen(client, job) == before
    here_only(cells, job, "b")


def test_a_repeated_request_at_the_old_cell_has_an_unknown_outcome(
    client: milepost.Client, cells: dict[str, Service], job: str
) -> None:
    """Its first attempt was applied before the job was moved."""
    call, key = f"{cells['a'].url}/v1/jobs/{job}/stop", {"Idempotency-Key": "k", "Milepost-Attempt": "1"}
    assert httpx.post(call, headers=key, timeout=60.0).status_code == 200
    assert move(client, job, "b") is not None
    found = [httpx.post(call, headers={**key, "Milepost-Attempt": n}, timeout=60.0).json() for n in ("1", "2")]
    assert [each["outcome"] for each in found] == ["not_applied", "unknown"]
    assert {each["type"] for each in found} == {"urn:milepost:elsewhere"}
    assert client.job_info(job).state == "stopped"


def test_a_dropped_job_is_not_moved(client: milepost.Client, cells: dict[str, Service], job: str) -> None:
    with client.of_job(job).session() as session:
        store = session.store(job)
        store.campaign()
        store.drop_job()
    with pytest.raises(NotExist, match="was dropped"):
        move(client, job, "b")
    assert client.job_info(job).state == "dropped"
    assert client.of_job(job).cell == "a"
    assert cells

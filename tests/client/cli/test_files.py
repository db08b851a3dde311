"""``milepost files`` over the real service."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import milepost
from milepost.job_record import JOB, JobRecord
from milepost.state.key_groups import KeyGroups
from milepost.state.processors.keys import GroupingKey
from milepost.state.processors.snapshot import first_snapshot
from milepost.state.processors.timers import TimeMode
from tests.client.cli.conftest import Run, Said
from tests.client.conftest import Service
from tests.wire.webhdfs.hadoop import Tree


def state(job: str, batch: int) -> bytes:
    """A state that is kept in a blob, and that no other has."""
    return b"%s %d " % (job.encode(), batch) * 500


@pytest.fixture
def job(service: Service, name: str) -> Iterator[str]:
    """A job with two snapshots that nobody leads."""
    with (
        milepost.Client(service.url) as client,
        client.session(ttl=60) as session,
        httpx.Client(base_url=service.url, timeout=60.0) as http,
    ):
        store = session.store(name)
        tree = Tree(http, name, store.campaign().epoch)
        for batch in range(2):
            assert tree.create(f"checkpoint/offsets/{batch}", b"v1").status_code == 201
            assert tree.create("checkpoint/state", state(name, batch), overwrite=True).status_code == 201
            assert tree.create(f"checkpoint/commits/{batch}", b"v1").status_code == 201
        store.resign()
        yield name


def test_cuts_are_listed_pinned_and_gone_back_to(said: Said, run: Run, job: str, service: Service) -> None:
    listed = json.loads(said("--json", "files", "snapshots", job))
    first, second = listed
    assert [(snapshot["snapshot"], snapshot["directory"], snapshot["batch"]) for snapshot in listed] == [
        (f"@{snapshot['revision']}", "checkpoint", batch) for batch, snapshot in enumerate(listed)
    ]
    assert [snapshot["epoch"] for snapshot in listed] == [1, 1]
    assert first["taken"] <= second["taken"]
    revision = first["revision"]
    assert said("files", "savepoint", job, "savepoint", "--revision", str(revision)) == (
        f"savepoint keeps the snapshot at revision {revision}\n"
    )
    again = said("files", "roll-back", job, "savepoint")
    assert again.startswith(f"the files are those of revision {revision} again; what they were is kept as @")
    before = again.split()[-1]
    assert [(line["snapshot"], line["kind"]) for line in json.loads(said("--json", "files", "snapshots", job))] == [
        (first["snapshot"], "snapshot"),
        ("savepoint", "savepoint"),
        (second["snapshot"], "passed over"),
        (before, "passed over"),
    ]
    assert said("files", "drop-savepoint", job, "savepoint") == "the savepoint savepoint is dropped\n"
    said("files", "roll-back", job, before)  # which undoes it
    with milepost.Client(service.url) as client:
        assert client.store(job).files.read("checkpoint/state") == state(job, 1)
    said("files", "roll-back", job, str(second["revision"]))
    for missing in ("savepoint", str(second["revision"] + 10**6), "@", "0", "-1"):
        ended = run("files", "roll-back", job, "--", missing)
        assert (ended.returncode, ended.stderr.split(b":")[0]) == (1, b"NotExist")


def record(service: Service, job: str, published: int, entered: int = -1, state: Any = None) -> None:
    """Publish batches of a job as its driver does, with the offsets that Spark has logged before."""
    of_job = JobRecord(job="f3" * 16, epoch=1, published=published, state=state)
    if entered >= 0:
        of_job = of_job.entering(entered, 1, 1)
    with milepost.Client(service.url) as client, client.session(ttl=60) as session:
        store = session.store(job)
        store.campaign()
        store.add_and_lock(JOB, of_job.encode())
        store.resign()


@pytest.mark.parametrize(("published", "entered"), [(1, -1), (0, 1), (2, -1)])
def test_files_do_not_go_back_behind_the_job_record(
    said: Said, run: Run, job: str, service: Service, published: int, entered: int
) -> None:
    record(service, job, published, entered)
    said("files", "savepoint", job, "savepoint")
    before = said("files", "snapshots", job)
    listed = json.loads(said("--json", "files", "snapshots", job))
    for wanted in {str(listed[0]["revision"]), listed[0]["snapshot"]} | ({"savepoint"} if published > 1 else set()):
        ended = run("files", "roll-back", job, wanted)
        assert ended.returncode == 1
        assert ended.stderr.startswith(b"NoSafeCheckpoint: snapshot ")
        assert b"nothing was rolled back" in ended.stderr
        assert b"under another name" in ended.stderr
    assert said("files", "snapshots", job) == before


def test_files_go_back_to_what_the_job_record_has(said: Said, run: Run, job: str, service: Service) -> None:
    record(service, job, 1)
    said("files", "savepoint", job, "savepoint")
    again = said("files", "roll-back", job, "savepoint")
    assert again.startswith("the files are those of revision ")
    before = again.split()[-1]
    ended = run("files", "roll-back", job, before)
    assert ended.returncode == 0, ended.stderr


def test_files_do_not_go_back_behind_managed_state(said: Said, run: Run, job: str, service: Service) -> None:
    """As in the snapshot of another query of the job: it has the offsets, but not what the batch committed of its
    state.
    """
    snapshot = first_snapshot(
        "counts", 1, GroupingKey((("word", "string"),)), KeyGroups(1), ((2, "c0ffee"),), {}, TimeMode.NONE
    )
    (commit,) = snapshot.commits
    with (
        milepost.Client(service.url) as client,
        client.session(ttl=60) as session,
    ):
        store = session.store(job)
        store.campaign()
        store.files.write(f"_milepost/state/{'f3' * 16}/{commit}", b"rows")
        store.resign()
    record(service, job, 1, state={"counts": snapshot.to_json()})
    ended = run("files", "roll-back", job, json.loads(said("--json", "files", "snapshots", job))[-1]["snapshot"])
    assert ended.returncode == 1
    assert b"lacks what the job has published of its managed states ['counts']" in ended.stderr


def test_a_job_is_cloned(said: Said, run: Run, job: str) -> None:
    said("files", "savepoint", job, "savepoint")
    size = len(state(job, 1)) + 8
    assert said("files", "clone", job, "savepoint", f"{job}-b") == f"{job}-b begins with 5 files of {size} bytes\n"
    assert [snapshot["batch"] for snapshot in json.loads(said("--json", "files", "snapshots", f"{job}-b"))] == [1]
    ended = run("files", "clone", job, "savepoint", f"{job}-b")
    assert (ended.returncode, ended.stderr.split(b":")[0]) == (1, b"NotEmpty")


def test_a_refusal_makes_no_store_and_raises_no_epoch(
    said: Said, run: Run, job: str, service: Service, blocking: milepost.Client
) -> None:
    record(service, job, 2)
    before = blocking.store(job).current_epoch()
    snapshot = json.loads(said("--json", "files", "snapshots", job))[0]["snapshot"]
    for code, arguments in (
        (b"NotExist", ("roll-back", job, "99999999")),
        (b"NoSafeCheckpoint", ("roll-back", job, snapshot)),
        (b"NotExist", ("roll-back", f"{job}-typo", "1")),
        (b"NotExist", ("clone", job, "typo", f"{job}-typo")),
        (b"NotEmpty", ("clone", job, snapshot, job)),
    ):
        ended = run("files", *arguments)
        assert (ended.returncode, ended.stderr.split(b":")[0]) == (1, code)
    assert blocking.store(job).current_epoch() == before
    assert f"{job}-typo" not in {summary.store for summary in blocking.stores()}


def test_damage_is_shown_and_is_the_exit_status(said: Said, run: Run, job: str, service: Service) -> None:
    found = json.loads(said("--json", "files", "verify", job, "--digests"))
    assert (found["intact"], found["damaged"]) == (True, [])
    content = state(job, 1)
    service.blob(content).write_bytes(content[::-1])
    assert run("files", "verify", job).returncode == 0
    shown = run("files", "verify", job, "--digests").stdout.decode()
    rows = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert rows["damaged"] == "checkpoint/state"
    assert re.fullmatch(r"\d+ snapshots, \d+ of them damaged, the newest snapshot is of batch 1", rows["kept"])
    ended = run("--json", "files", "verify", job, "--digests")
    assert ended.returncode == 1
    assert [file["path"] for file in json.loads(ended.stdout)["damaged"]] == ["checkpoint/state"]


def test_nothing_is_gone_back_to_under_a_driver(said: Said, run: Run, job: str, service: Service) -> None:
    snapshot = json.loads(said("--json", "files", "snapshots", job))[0]["snapshot"]
    with milepost.Client(service.url) as client, client.session(ttl=60, holder="driver") as session:
        session.store(job).campaign()
        ended = run("files", "roll-back", job, snapshot)
    assert ended.returncode == 1
    assert b"driver" in ended.stderr

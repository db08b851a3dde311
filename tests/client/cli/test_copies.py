"""``milepost jobs clone`` and ``drop`` over the real service; Spark itself runs in tests/spark/test_clone.py."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

import milepost
from milepost.job_record import JOB, KIND, RECORD_FILE, JobRecord, decode
from tests.client.cli.conftest import Run, Said
from tests.client.cli.test_jobs import commands, publish

PAGE = Path(__file__).parents[3] / "docs" / "jobs.md"
ID = b'{"id":"4be4b4a6-1111-2222-3333-444455556666"}'


def batches(store: milepost.StateHandleStore, count: int) -> JobRecord:
    """Publish so many batches under an epoch, as a driver does."""
    store.campaign()
    store.files.write("checkpoint/metadata", ID)
    record = JobRecord(job="f3" * 16, epoch=store.epoch or 0, authority="a:1")
    for batch in range(count):
        record = publish(store, record, batch)
    return record


def test_a_job_is_cloned_by_the_commands_of_the_page(
    said: Said, run: Run, session: milepost.Session, blocking: milepost.Client, name: str
) -> None:
    """The driver of the original leads meanwhile, and nothing of the original changes."""
    store = session.store(name)
    batches(store, 3)
    before = (blocking.store(name).read(JOB), store.files.snapshots())
    dry, cloning = (command for command in commands(name) if "clone" in command)
    assert dry[1:4] == ["clone", name, f"{name}-fix"]
    assert said(*dry).startswith(f"{name}-fix would begin as a clone of {name} at batch 1")
    assert f"{name}-fix" not in said("jobs", "ls")
    made = json.loads(said(*cloning, "--json"))
    assert (made["batch"], made["published"], made["files"]) == (1, 1, 6)
    copy = blocking.store(f"{name}-fix")
    record = decode(copy.read(JOB))
    assert (record.published, record.manifest, record.authority) == (1, None, "a:1")
    assert record.origin is not None
    assert (record.origin.source, record.origin.snapshot) == (name, made["snapshot"])
    assert copy.files.read(RECORD_FILE) == copy.read(JOB)
    assert copy.files.read("checkpoint/metadata") == ID
    assert [each.batch for each in copy.files.snapshots().snapshots] == [1]
    assert f"files of {name}/@" in said("jobs", "history", f"{name}-fix")
    assert (blocking.store(name).read(JOB), store.files.snapshots()) == before
    again = run(*cloning)
    assert (again.returncode, again.stderr.split(b":")[0]) == (1, b"NotEmpty")

    said("jobs", "clone", name, f"{name}-id", "--new-query-id")
    other = blocking.store(f"{name}-id")
    assert other.files.read("checkpoint/metadata") != ID
    assert [decode(each.read(JOB)).published for each in (copy, other)] == [1, 2]
    assert len({decode(each.read(JOB)).job for each in (store, copy, other)}) == 3


def test_what_cannot_be_cloned_is_refused_before_anything_is_written(
    said: Said, run: Run, session: milepost.Session, name: str
) -> None:
    store = session.store(name)
    new = f"{name}-new"

    def refused(error: bytes, why: str, *options: str, to: str = new) -> None:
        ended = run("jobs", "clone", name, to, *options)
        assert (ended.returncode, ended.stderr.split(b":")[0]) == (1, error)
        assert why in ended.stderr.decode()

    refused(b"NotExist", "no snapshot of its checkpoint")
    record = batches(store, 2)
    refused(b"NotExist", "no snapshot of batch 7", "--batch", "7")
    assert run("jobs", "clone", name, new, "@1", "--batch", "1").returncode == 2
    session.store(f"{name}-held").add_and_lock(JOB, b"x")
    refused(b"AlreadyExists", "has a record", to=f"{name}-held")
    refused(b"NotEmpty", "has files", to=name)
    version = store.get_and_lock(JOB).version
    store.replace(JOB, version, record.rescaling(2, 1).encode())
    refused(b"NoSafeCheckpoint", "in the middle of a rescale", "--batch", "0")
    assert new not in said("ls")


def test_a_clone_names_the_directories_into_which_it_must_not_publish(
    said: Said, session: milepost.Session, name: str
) -> None:
    store = session.store(name)
    record = batches(store, 1)
    page = {"file": "_milepost/batch-0-e1-0.json", "sha256": "0", "first": 0, "last": 0}
    manifest = {"kind": KIND, "output": "file:/data/flights", "page": page}
    state = record.publishing(0, manifest, 1).encode()
    store.replace(JOB, store.get_and_lock(JOB).version, state)
    store.files.write(RECORD_FILE, state)
    store.files.write("checkpoint/commits/1", b"v1")
    store.files.write("checkpoint/offsets/0", b"v1")
    planned = said("jobs", "clone", name, f"{name}-new", "--dry-run")
    assert f"job.files refuses the directories of {name}: file:/data/flights" in planned


def test_a_job_is_dropped_by_the_commands_of_the_page(
    said: Said, run: Run, blocking: milepost.Client, name: str
) -> None:
    dry, dropping = (command for command in commands(name) if "drop" in command)
    assert run(*dropping).stderr.startswith(b"NotExist")
    with blocking.session() as user:
        user.store(f"{name}-plain").add_and_lock("a", b"state")
    assert b"is no job" in run("jobs", "drop", f"{name}-plain", "--yes").stderr
    with blocking.session(holder="driver-1") as driver:
        store = driver.store(name)
        record = batches(store, 2)
        store.files.make_savepoint("before-upgrade")
        page = {"file": "_milepost/batch-1-e1-0.json", "sha256": "0", "first": 0, "last": 1}
        manifest = {"kind": KIND, "output": "file:/data/flights", "page": page}
        handle = store.get_and_lock(JOB)
        store.replace(JOB, handle.version, record.publishing(1, manifest, 1).encode())
        held = run(*dropping)
        assert (held.returncode, held.stderr.split(b":")[0]) == (1, b"EpochHeld")
        assert b"driver-1 leads" in held.stderr
        store.resign()
        planned = said(*dry)
        assert planned.startswith(f"{name} would be dropped: it has 1 handles and 2 snapshots, and the savepoints")
        assert "the files in file:/data/flights stay" in planned
        assert blocking.job_info(name).state == "resigned"
        assert run("jobs", "drop", name).returncode == 2, "without a terminal it asks for --yes"
        made = json.loads(said(*dropping, "--json"))
        assert (made["handles"], made["snapshots"], made["dropped"]) == (1, 2, True)
        assert made["outputs"] == ["file:/data/flights"]
        for late in (lambda: store.files.write("checkpoint/offsets/2", b"v1"), lambda: store.add_and_lock(JOB, b"x")):
            with pytest.raises(milepost.Fenced):
                late()
    assert blocking.job_info(name).state == "dropped"
    assert name not in said("jobs", "ls")
    assert name in said("jobs", "ls", "--dropped")
    assert [*blocking.store(name).files.list()] == []
    newest = [line.split()[1] for line in said("jobs", "history", name, "--limit", "3").splitlines()[1:]]
    assert newest == ["epoch-ended", "dropped", "epoch-granted"]
    assert said(*dropping) == f"{name} is dropped already\n"
    with blocking.session(holder="driver-2") as driver:
        store = driver.store(name)
        assert store.campaign().epoch == 3
        assert name in said("jobs", "ls")
        with pytest.raises(milepost.NotExist):
            store.get(JOB)


def test_what_differs_between_two_jobs_is_listed_by_the_commands_of_the_page(
    said: Said, run: Run, session: milepost.Session, name: str
) -> None:
    """A clone differs from the snapshot that it was made of in what makes it a clone, and in nothing else."""
    store = session.store(name)
    batches(store, 1)
    log = 'v1\n{"batchWatermarkMs":5,"conf":{"spark.sql.shuffle.partitions":"%d"}}\n{"logOffset":%d}'
    for batch, partitions in ((1, 4), (2, 8)):
        store.files.write(f"checkpoint/offsets/{batch}", (log % (partitions, batch)).encode())
        store.files.write(f"checkpoint/state/0/0/{batch}.delta", b"%d" % batch)
        metadata = b"v2\n/jobs/%s/checkpoint/state" % name.encode()
        store.files.write("checkpoint/state/0/_metadata/v2/0", metadata)
        store.files.write(f"checkpoint/commits/{batch}", b"v1")
    kept = {each.batch: each.name for each in store.files.snapshots().snapshots}
    clone = f"{name}-fix"
    said("jobs", "clone", name, clone)
    of_two, of_snapshots = (command for command in commands(name) if "diff" in command)

    def differing(*command: str) -> dict[tuple[str, str], tuple[str | None, str | None]]:
        ended = run(*command, "--json")
        rows = json.loads(ended.stdout)
        assert ended.returncode == (1 if rows else 0)
        return {(each["part"], each["name"]): (each["left"], each["right"]) for each in rows}

    assert differing(*of_two) == {("record", "clone of"): (None, f"{name} at {kept[2]}")}
    assert differing("jobs", "diff", f"{name}{kept[2]}", name) == {}
    store.files.make_savepoint("before-upgrade", int(kept[1][1:]))
    assert of_snapshots[-1] == "--no-files"
    assert differing(*of_snapshots[:-1]) == {
        ("batch", "committed"): ("1", "2"),
        ("batch", "logged"): ("1", "2"),
        ("offsets", "source 0"): ('{"logOffset":1}', '{"logOffset":2}'),
        ("settings", "spark.sql.shuffle.partitions"): ("4", "8"),
        ("file", "checkpoint/state/0/0/2.delta"): (None, f"1 bytes, sha256 {sha256(b'2').hexdigest()[:16]}"),
    }
    assert ("file", "checkpoint/state/0/0/2.delta") not in differing(*of_snapshots, "--no-files")
    assert run("jobs", "diff", name, f"{name}-never").stderr.startswith(b"NotExist")
    assert run("jobs", "diff", name, f"{name}@never").stderr.startswith(b"NotExist")
    store.files.write("checkpoint/offsets/2", b"v1\nnothing")
    assert run("jobs", "diff", name, clone).stderr.startswith(b"WrongCheckpoint")

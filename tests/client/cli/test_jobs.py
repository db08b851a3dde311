"""``milepost jobs`` over the real service."""

from __future__ import annotations

import json
import re
import shlex
import threading
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost.files import JobFiles
from milepost.job_record import JOB, RECORD_FILE, JobRecord, decode
from milepost.restoring import newest_of_batch, restore
from tests.client.cli.conftest import Run, Said, started
from tests.client.cli.conftest import ended as end
from tests.client.conftest import Service, eventually

PAGE = Path(__file__).parents[3] / "docs" / "jobs.md"


def commands(name: str) -> list[list[str]]:
    """The commands of the page, about a job of this name."""
    found = re.findall(r"^milepost (jobs [^>\n]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(command.replace("flights", name)) for command in found]


def line_of(said: Said, name: str) -> Any:
    (line,) = (each for each in json.loads(said("jobs", "ls", "--json")) if each["job"] == name)
    return line


def test_a_job_is_listed_and_shown_with_its_driver_and_its_standbys(
    said: Said, run: Run, service: Service, blocking: milepost.Client
) -> None:
    name = "jobs-of-one-driver"
    with blocking.session(holder="driver-1") as driver, milepost.Client(service.url) as other:
        store = driver.store(name).under(driver.store(name).campaign().epoch)
        for batch in range(2):
            store.files.write(f"checkpoint/commits/{batch}", b"v1")
        store.files.make_savepoint("before-upgrade")
        with other.session(holder="driver-2", process=milepost.Process("spark-2", 4711)) as standby:
            waiting = threading.Thread(target=standby.store(name).campaign, kwargs={"wait": 60.0})
            waiting.start()
            eventually(lambda: blocking.job_info(name).standby_count == 1)
            line = line_of(said, name)
            assert (line["state"], line["epoch"], line["holder"]) == ("led", 1, "driver-1")
            assert (line["standbys"], line["batch"], line["damaged"]) == (1, 1, 0)
            assert line["age"] >= 0
            shown = json.loads(said("jobs", "show", name, "--json"))
            assert [each.split(" since ")[0] for each in shown["standbys"]] == ["driver-2 (host spark-2, pid 4711)"]
            assert shown["host"] is None
            assert (shown["savepoints"], shown["directory"]) == (["before-upgrade"], "checkpoint")
            driver.store(name).resign()
            waiting.join(60)
            (checked,) = json.loads(said("jobs", "check", name, "--max-age", "1h", "--json"))
            assert (checked["holder"], checked["batch"], checked["complaints"]) == ("driver-2", 1, [])
            for command in commands(name):
                if not {"restore", "rescale", "clone", "diff", "drop", "stop", "hand-over", "start"} & {*command}:
                    done = run(*command)
                    assert ("epoch-granted" if {"history", "events"} & {*command} else name) in done.stdout.decode()
                    assert done.returncode == 0 or "--all" in command, "other tests leave lost jobs behind"
    newest = said("jobs", "history", name, "--limit", "3").splitlines()
    assert newest[0].split() == ["TIME", "WHAT", "EPOCH", "BATCH", "ROWS", "WHO", "DETAIL"]
    assert len(newest) == 4
    whole = json.loads(said("jobs", "history", name, "--json"))
    assert [
        (each["kind"], each["epoch"], each["how"]) for each in whole if each["epoch"] and each["batch"] is None
    ] == [
        ("epoch-ended", 2, "session-ended"),
        ("epoch-granted", 2, None),
        ("epoch-ended", 1, "resigned"),
        ("epoch-granted", 1, None),
    ]
    assert whole[1]["process"] == {"host": "spark-2", "pid": 4711, "application": None, "ui": None}
    assert "host spark-2, pid 4711" in newest[2]
    assert said("jobs", "ls").splitlines()[0].split()[:3] == ["JOB", "STATE", "EPOCH"]
    told = [json.loads(line) for line in said("jobs", "events", name, "--json").splitlines()]
    assert told == whole[::-1]
    assert [line.split()[0] for line in said("jobs", "events", name).splitlines()] == [each["id"] for each in told]
    following = started(service.url, "jobs", "events", name, "--follow", "--json", "--after", told[0]["id"])
    try:
        assert following.stdout is not None
        assert [json.loads(following.stdout.readline()) for _ in told[1:]] == told[1:]
    finally:
        following.terminate()
        end(following)
    assert b"--follow" in run("jobs", "events", name, "--after", "7").stderr
    assert line_of(said, name)["state"] == "lost"
    late = run("jobs", "check", name, "--max-age", "0.001s")
    assert late.returncode == 1
    lost, old = late.stderr.decode().splitlines()
    assert lost == f"no driver leads {name}: it is lost, and 0 stand by"
    assert old.startswith(f"the last batch of {name}, 1, is ")
    (told,) = json.loads(run("jobs", "check", name, "--max-age", "0.001s", "--json").stdout)
    assert told["complaints"][0] == lost


def test_what_a_crash_left_is_told_in_words(said: Said, blocking: milepost.Client, name: str) -> None:
    def shown() -> str:
        (line,) = json.loads(said("jobs", "show", name, "--json"))["begun"]
        return str(line)

    with blocking.session(holder="driver-1") as driver:
        store = driver.store(name).under(driver.store(name).campaign().epoch)
        for path in ("offsets/0", "commits/0", "offsets/1"):
            store.files.write(f"checkpoint/{path}", b"v1")
        assert shown().startswith("batch 1 of checkpoint, begun at ")
        assert shown().endswith(", runs under epoch 1")
    left = "left by epoch 1: the next driver runs it again, with the same input, so nothing is lost"
    assert shown().endswith(left)
    with blocking.session(holder="driver-2") as driver:
        store = driver.store(name).under(driver.store(name).campaign().epoch)
        assert shown().endswith("left by epoch 1: epoch 2 runs it again, with the same input, so nothing is lost")
        store.files.write("checkpoint/commits/1", b"v1")
    (entry,) = [line for line in said("jobs", "history", name).splitlines() if "run again" in line]
    assert entry.endswith("begun under epoch 1 and run again under epoch 2, with the same input")
    assert json.loads(said("jobs", "show", name, "--json"))["begun"] == []


def test_many_jobs_are_checked_in_one_call(run: Run, session: milepost.Session, name: str) -> None:
    """Whoever names a job wants it led; of others, those that were stopped in order are passed over."""

    def checked(*arguments: str) -> tuple[int, list[str], list[str]]:
        ended = run("jobs", "check", *arguments, "--json")
        return (
            ended.returncode,
            [each["job"] for each in json.loads(ended.stdout)],
            ended.stderr.decode().splitlines(),
        )

    led, stopped, absent = f"{name}-led", f"{name}-stopped", f"{name}-absent"
    for each in (led, stopped):
        session.store(each).campaign()
    session.store(stopped).resign()
    complaint = f"no driver leads {stopped}: it is resigned, and 0 stand by"
    assert checked(f"{name}-*") == (0, [led], [])
    assert checked(led, stopped, f"{name}-*") == (1, [led, stopped], [complaint])
    assert checked(led, absent) == (1, [led, absent], [f"there is no job {absent}"])
    assert checked(f"{absent}-?*") == (0, [], [f"warning: no job matches {absent}-?*"])
    assert led in run("jobs", "check", "--all").stdout.decode()
    assert run("jobs", "check").returncode == run("jobs", "check", led, "--all").returncode == 2


def test_a_store_without_epoch_and_files_is_no_job(said: Said, run: Run, session: milepost.Session, name: str) -> None:
    session.store(f"{name}-plain").add_and_lock("a", b"state")
    assert f"{name}-plain" not in said("jobs", "ls")
    session.store(name).campaign()
    fresh = run("jobs", "check", name, "--max-age", "1d")
    assert (fresh.returncode, fresh.stderr.decode()) == (
        1,
        f"{name} has no batch yet, or its files are not in this service\n",
    )
    assert run("jobs", "check", name).returncode == 0
    assert run("jobs", "check", name, "--max-age", "soon").returncode == 2
    unknown = run("jobs", "show", f"{name}-never")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith(b"NotExist: ")
    nothing = run("jobs", "history", f"{name}-plain")
    assert (nothing.returncode, nothing.stderr.decode()) == (
        0,
        f"nothing is recorded of a job {name}-plain: no driver ever led it\n",
    )


def publish(store: milepost.StateHandleStore, record: JobRecord, batch: int) -> JobRecord:
    """Publish a batch as a driver does: offsets, the record, its copy among the files, and the commit."""
    store.files.write(f"checkpoint/offsets/{batch}", b'v1\n{"conf":{}}\n{"flights":{"0":%d}}' % batch)
    record = record.publishing(batch, {"batch": batch}, record.epoch)
    try:
        store.replace(JOB, store.get_and_lock(JOB).version, record.encode())
    except milepost.NotExist:
        store.add_and_lock(JOB, record.encode())
    store.files.write(RECORD_FILE, record.encode())
    store.files.write(f"checkpoint/commits/{batch}", b"v1")
    return record


def test_a_job_is_restored_by_the_commands_of_the_page(
    said: Said, run: Run, blocking: milepost.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with blocking.session(holder="driver-1") as driver:
        store = driver.store(name)
        store.campaign()
        record = JobRecord(job="f3" * 16, epoch=1)
        for batch in range(4):
            record = publish(store, record, batch)
        monkeypatch.setattr("milepost.cli.acting.led.__wrapped__.__defaults__", (0.0,))
        refused = run("jobs", "restore", name, "--batch", "1")
        told, error = refused.stderr.decode().splitlines()
        assert (refused.returncode, error.split(":")[0]) == (1, "EpochHeld")
        assert told.startswith(f"driver-1 leads {name} under epoch 1: waiting")
        planned = said("jobs", "restore", name, "--batch", "1", "--dry-run")
        assert f"driver: driver-1 leads {name} under epoch 1, so this would be refused" in planned
        store.resign()
    before = blocking.store(name).read(JOB)
    dry, restore = (said(*command) for command in commands(name) if "restore" in command)
    assert dry.startswith(f"{name} would go back to batch 1")
    assert restore.startswith(f"{name} is back at batch 1; milepost jobs restore {name} @")
    for part in ("source", "state", "output", "sink"):
        assert f"\n  {part}: " in restore
    restored = decode(blocking.store(name).read(JOB))
    assert (restored.published, restored.manifest, restored.job) == (1, {"batch": 1}, "f3" * 16)
    with pytest.raises(milepost.NotExist):
        blocking.store(name).files.get("checkpoint/commits/2")
    undo = restore.split(" undoes it")[0].split()[-1]
    said("jobs", "restore", name, undo)
    again = decode(blocking.store(name).read(JOB))
    assert (again.published, again.manifest) == (3, decode(before).manifest)
    assert blocking.store(name).files.read("checkpoint/commits/3") == b"v1"


def test_what_to_restore_is_named_once(said: Said, run: Run, session: milepost.Session, name: str) -> None:
    store = session.store(name)
    store.campaign()
    publish(store, JobRecord(job="f3" * 16, epoch=1), 0)
    store.resign()
    epoch = store.current_epoch().epoch
    for given in ((), ("@1", "--batch", "1"), ("--batch", "0", "--as-of", "2026-01-01T00:00:00+0000")):
        assert run("jobs", "restore", name, *given).returncode == 2
    for missing in (("nothing",), ("--batch", "7"), ("--as-of", "2026-01-01T00:00:00+0000")):
        ended = run("jobs", "restore", name, *missing)
        assert (ended.returncode, ended.stderr.split(b":")[0]) == (1, b"NotExist")
    planned = json.loads(said("--json", "jobs", "restore", name, "--as-of", "2999-01-01T00:00:00+0000", "--dry-run"))
    assert (planned["batch"], planned["published"], planned["undo"]) == (0, 0, None)
    assert store.current_epoch().epoch == epoch  # refused and planned restores raise no epoch


def test_a_topic_that_was_made_anew_is_read_from_its_beginning_by_one_command(
    said: Said, run: Run, session: milepost.Session, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark itself reads the topic in tests/spark/clusters/test_kafka.py."""
    store = session.store(name)
    store.campaign()
    record = JobRecord(job="f3" * 16, epoch=1)
    for batch in range(3):
        record = publish(store, record, batch)
    command = ("jobs", "restore", name, "--batch", "1", "--offsets")
    assert run(*command, "flights=0").returncode == 2
    refused = run(*command, '{"trains": {"0": 0}}')
    assert (refused.returncode, refused.stderr.split(b":")[0]) == (1, b"InvalidRequest")
    offsets = {"flights": {"0": 0, "1": 0}}

    write = JobFiles.write

    def killed(files: JobFiles, path: str, content: bytes) -> None:
        if "offsets" in path:
            raise KeyError("killed between the two commits")
        write(files, path, content)

    snapshot = newest_of_batch(store.files.snapshots(), 1)
    with monkeypatch.context() as dying:
        dying.setattr(JobFiles, "write", killed)
        with pytest.raises(KeyError, match="killed"):
            restore(store, snapshot, offsets=offsets)
    store.resign()
    kept = store.files.snapshots().snapshots[-1]
    assert (kept.batch, store.files.read("checkpoint/offsets/1").splitlines()[2]) == (1, b'{"flights":{"0":1}}')

    assert "source: the next batch is 2, from flights 0:0 1:0 on" in said(*command, json.dumps(offsets))
    assert store.files.read("checkpoint/offsets/1") == b'v1\n{"conf":{}}\n{"flights":{"0":0,"1":0}}'
    said("jobs", "restore", name, "--batch", "1")  # the snapshot has the offsets of before
    assert store.files.read("checkpoint/offsets/1").splitlines()[2] == b'{"flights":{"0":1}}'


def test_a_rescale_is_planned_from_sparks_logs_and_what_cannot_be_divided_is_refused(
    said: Said, run: Run, session: milepost.Session, name: str
) -> None:
    """Spark itself runs in tests/spark/test_repartition.py."""
    planning = next(command for command in commands(name) if {"rescale", "--dry-run"} <= {*command})
    store = session.store(name)
    store.campaign()

    def refused(why: str) -> None:
        ended = run(*planning)
        assert (ended.returncode, ended.stdout) == (1, b"")
        assert why in ended.stderr.decode()

    refused("has no committed batch under checkpoint/")
    store.files.write("checkpoint/offsets/0", b'v1\n{"conf":{"spark.sql.shuffle.partitions":"4"}}\n{}')
    store.files.write("checkpoint/commits/0", b"v1\n{}")
    refused("has no state of Spark's operators")
    store.files.write("checkpoint/state/0/_metadata/metadata", b"v1")
    revision = store.files.snapshots().snapshots[-1].revision
    planned = json.loads(said(*planning, "--json"))
    assert (planned["partitions_before"], planned["partitions"], planned["batch"]) == (4, 7, 1)
    assert planned["undo"] is None
    assert "\n  sink: gets nothing, and never sees a batch 1" in said(*planning)
    assert run(*planning, "--conf", "no-value").returncode == 2
    store.files.write("checkpoint/offsets/1", b'v1\n{"conf":{"spark.sql.shuffle.partitions":"7"}}\n{}')
    refused(f"batch 1 of {name} is begun and not committed")
    store.files.write("checkpoint/commits/1", b"v1\n{}")
    refused(f"the state of {name} has 7 partitions already")
    store.files.write("checkpoint/offsets/1", b"v1\nnot json\n{}")
    refused("checkpoint/offsets/1")
    assert next(iter(store.files.snapshots().snapshots)).revision == revision

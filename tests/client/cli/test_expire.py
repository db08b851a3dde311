"""``milepost expire`` over the real service. What drivers and readers do with it is in tests/spark/output."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import milepost
from milepost.job_record import JOB, JobRecord, decode
from tests.client.cli.conftest import Run, Said
from tests.client.conftest import Service

FILES = {"kind": "files", "output": "file:/out", "page": {"file": "page", "sha256": "", "first": 0, "last": 9}}
RECORD = JobRecord("f3" * 16, 1, 9, FILES, authority="here:1")


def record(service: Service, name: str, state: bytes) -> None:
    """Begin a job with this record, which then nobody leads."""
    with milepost.Client(service.url) as client, client.session(ttl=60) as session:
        store = session.store(name)
        store.campaign()
        store.add_and_lock(JOB, state)
        store.resign()


def stored(service: Service, name: str) -> JobRecord:
    with milepost.Client(service.url) as client:
        return decode(client.store(name).read(JOB))


def test_batches_expire_and_stay_so(said: Said, service: Service, name: str) -> None:
    record(service, name, RECORD.encode())
    assert said("expire", name, "--before", "4", "--dry-run") == f"batches 0 to 3 of {name} would expire\n"
    none = said("expire", name, "--before", "0", "--dry-run")
    assert none == f"no more batches of {name} expire: there is none below 0\n"
    assert stored(service, name) == RECORD
    told = json.loads(said("--json", "expire", name, "--before", "4"))
    assert told == {"store": name, "expired": 4, "kept_from": 4, "published": 9}
    assert stored(service, name) == replace(RECORD, epoch=2, expired=4)
    with milepost.Client(service.url) as client:
        assert client.store(name).get(JOB).labels == {"published": "9", "epoch": "2"}
    for before in ("4", "0"):
        ended = said("expire", name, "--before", before)
        assert ended == f"no more batches of {name} expire: those below 4 are expired already\n"
    said("expire", name, "--before", "9")
    assert stored(service, name).expired == 9
    rows = [line.split(maxsplit=2)[1:] for line in said("jobs", "history", name).splitlines() if " expired " in line]
    whole = json.loads(said("jobs", "history", name, "--json"))
    acts = [(each["batch"], each["previous_batch"], each["epoch"]) for each in whole if each["kind"] == "expired"]
    assert acts == [(8, 3, 5), (3, None, 2)], "what changed nothing is no act"
    assert [
        row[-1].endswith(f"output of batches {which}") for row, which in zip(rows, ("4 to 8", "0 to 3"), strict=True)
    ]


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, b"before must be from 0 to 9, the batch that was published last\n"),
        ({"manifest": {"rows": 3}}, b"UnsafeQuery: "),
        ({"manifest": None, "published": -1}, b"UnsafeQuery: "),
    ],
)
def test_what_cannot_expire_is_refused(
    run: Run, service: Service, name: str, changes: dict[str, Any], why: bytes, options: list[str]
) -> None:
    record(service, name, replace(RECORD, **changes).encode())
    ended = run("expire", name, "--before", "10", *options)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert why in ended.stderr
    assert hasattr(milepost.errors, ended.stderr.split(b":")[0].decode())
    assert stored(service, name).expired == 0
    with milepost.Client(service.url) as client:
        assert client.store(name).current_epoch().epoch == 1


def test_the_record_of_an_older_release_stays_as_it_was(run: Run, service: Service, name: str) -> None:
    older = json.loads(RECORD.encode()) | {"schema": 1, "checkpoints": [{"id": 1}]}
    record(service, name, json.dumps(older).encode())
    ended = run("expire", name, "--before", "4")
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"NoSafeCheckpoint: ")
    assert stored(service, name).layered


def test_nothing_expires_under_a_driver_or_without_a_job(
    run: Run, said: Said, service: Service, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("expire", name, "--before", "1").stderr.startswith(b"NotExist: ")
    with milepost.Client(service.url) as client:
        assert client.store(name).current_epoch().epoch == 0
    record(service, name, RECORD.encode())
    with milepost.Client(service.url) as client, client.session(ttl=60, holder="driver") as session:
        session.store(name).campaign()
        monkeypatch.setattr("milepost.cli.acting.led.__wrapped__.__defaults__", (0.0,))
        ended = run("expire", name, "--before", "4")
        assert said("expire", name, "--before", "4", "--dry-run") == f"batches 0 to 3 of {name} would expire\n"
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(b"EpochHeld: ")
    assert stored(service, name) == RECORD

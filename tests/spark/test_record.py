"""The job record: what it keeps, how it moves, and what it refuses to be read from."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import milepost
from milepost.errors import NoSafeCheckpoint, RecordUnreadable
from milepost.job_record import JOB, KIND, JobRecord, decode
from milepost.spark.pointer import JobPointer, ResolvingStore
from milepost.store import StateHandleStore

LAYERED = (Path(__file__).parent / "layered_record.json").read_bytes()
"""The record of a job that a driver of the release before schema 2 left, after batches 0 and 1 of an aggregation."""


def test_everything_survives_being_stored() -> None:
    record = JobRecord("job", 7, 4, {"page": "x"}, entered=5, entries=2, authority="127.0.0.1:7070")
    assert decode(record.encode()) == record


def test_a_job_that_published_nothing_says_null() -> None:
    record = JobRecord("job", 1)
    assert json.loads(record.encode())["published"] is None
    assert decode(record.encode()) == record


def test_each_write_has_a_digest_of_its_own() -> None:
    record = JobRecord("job", 1)
    assert record.encode() != record.encode()


@pytest.mark.parametrize("state", [b"", b"[]", b"{}", b'"text"', b"\xff", b"[" * 100_000, b'{"schema":2,"job":"x"}'])
def test_what_is_no_record_is_refused(state: bytes) -> None:
    with pytest.raises(RecordUnreadable):
        decode(state)


@pytest.mark.parametrize(
    "damage",
    [
        {"published": math.inf},
        {"published": "5"},
        {"epoch": 1.5},
        {"entered": {"batch": math.inf, "times": 1}},
        {"authority": None},
        {"job": None},
    ],
    ids=str,
)
def test_a_record_with_something_else_in_a_place_is_refused(damage: dict[str, object]) -> None:
    raw = json.loads(JobRecord("job", 1, 4, authority="127.0.0.1:7070").encode())
    with pytest.raises(RecordUnreadable, match="is no"):
        decode(json.dumps({**raw, **damage}).encode())


def test_a_newer_schema_is_refused_by_name() -> None:
    with pytest.raises(RecordUnreadable, match="schema 7"):
        decode(JobRecord("job", 1).encode().replace(b'"schema":2', b'"schema":7'))


def test_a_record_with_states_has_a_schema_that_older_releases_refuse() -> None:
    record = JobRecord("job", 1).publishing(0, None, 1, {"words": {"version": 1}})
    assert json.loads(record.encode())["schema"] == 3
    assert decode(record.encode()) == record
    assert decode(record.replayed(2).encode()).state == {"words": {"version": 1}}
    assert json.loads(JobRecord("job", 1).encode())["schema"] == 2
    damaged: list[object] = [[], {"words": 1}]
    for wrong in damaged:
        raw = json.loads(record.encode())
        with pytest.raises(RecordUnreadable, match="no snapshots"):
            decode(json.dumps({**raw, "state": wrong}).encode())


@pytest.mark.parametrize("state", [None, {"words": {"version": 1}}])
def test_what_is_expired_stays_so_and_older_releases_refuse_it(state: dict[str, object] | None) -> None:
    record = JobRecord("job", 1).publishing(7, None, 1, state).expiring(5, 1)
    assert json.loads(record.encode())["schema"] == 4
    assert decode(record.encode()) == record
    later = record.entering(8, 1, 2).publishing(8, None, 2, state).replayed(3).expiring(2, 3)
    assert (decode(later.encode()).expired, later.state) == (5, state)
    with pytest.raises(RecordUnreadable, match="is no whole number"):
        decode(record.encode().replace(b'"expired":5', b'"expired":null'))


def files_of(output: str) -> dict[str, object]:
    """The manifest of `job.files` that publishes into ``output``."""
    return {"kind": KIND, "output": output, "page": {"file": "_milepost/batch-4-e3-0.json"}}


def test_a_clone_has_published_the_same_batches_and_has_no_output() -> None:
    state = {"words": {"version": 1}}
    record = JobRecord("job", 3, authority="a:1").publishing(4, files_of("/out"), 3, state).expiring(2, 3)
    clone = record.cloned("flights", "@7", "own", 1)
    assert json.loads(clone.encode())["schema"] == 6
    assert decode(clone.encode()) == clone
    assert (clone.job, clone.published, clone.state, clone.authority) == ("own", 4, state, "a:1")
    assert (clone.manifest, clone.expired, clone.first_output, clone.states) == (None, 0, 5, "job")
    assert clone.origin is not None
    assert (clone.origin.source, clone.origin.outputs) == ("flights", ("/out",))
    again = clone.publishing(5, files_of("/next"), 1, state).cloned("next", "@9", "third", 1)
    assert again.origin is not None
    assert again.origin.lineage == (("next", "own"), ("flights", "job"))
    assert (again.origin.outputs, again.first_output, again.states) == (("/next", "/out"), 6, "job")
    damaged: list[dict[str, object]] = [{"lineage": []}, {"batch": "4"}, {"states": None}]
    for damage in damaged:
        raw = json.loads(clone.encode())
        with pytest.raises(RecordUnreadable):
            decode(json.dumps({**raw, "cloneOf": {**raw["cloneOf"], **damage}}).encode())


def test_a_rescaled_or_restored_clone_is_still_one() -> None:
    clone = JobRecord("job", 3).publishing(4, files_of("/out"), 3).cloned("flights", "@7", "own", 1)
    rescaling = clone.rescaling(5, 2)
    assert (json.loads(rescaling.encode())["schema"], decode(rescaling.encode())) == (8, rescaling)
    rescaled = rescaling.rescaled(5, 2)
    assert (rescaled.published, rescaled.first_output) == (5, 6)
    published = rescaled.publishing(6, files_of("/next"), 2)
    assert published.rescaling(7, 3).rescaled(7, 3).first_output == 6
    restored = published.restoring(clone, 4)
    assert (restored.manifest, restored.published, restored.first_output) == (None, 4, 5)
    assert restored.restoring(published, 5).manifest == published.manifest
    with pytest.raises(RecordUnreadable, match="this job is own"):
        published.restoring(JobRecord("job", 3), 4)


def test_entries_count_until_the_batch_is_published() -> None:
    record = JobRecord("job", 1).entering(0, 1, 1).entering(0, 2, 3)
    assert (record.epoch, record.entered, record.entries) == (3, 0, 2)
    assert record.publishing(0, None, 3).entries == 0
    assert record.replayed(4).entries == 0


def test_a_job_of_an_older_release_can_be_read_and_is_not_gone_on_with(
    handles: StateHandleStore, certain: ResolvingStore, client: milepost.Client, name: str
) -> None:
    """What it published is known by the manifest; its checkpoint lies in archives, which nobody unpacks any more."""
    record = decode(LAYERED)
    assert (record.published, record.manifest) == (1, {"rows": 9})
    handles.add_and_lock(JOB, LAYERED)
    with pytest.raises(NoSafeCheckpoint, match=r"older release .*after batch 1.*under another name"):
        JobPointer.take(certain, "127.0.0.1:7070")
    assert client.store(name).read(JOB) == LAYERED


def test_a_job_of_an_older_release_that_never_began_goes_on(handles: StateHandleStore, certain: ResolvingStore) -> None:
    raw = json.loads(LAYERED)
    state = json.dumps({**raw, "published": None, "manifest": None, "checkpoints": []}).encode()
    handles.add_and_lock(JOB, state)
    pointer = JobPointer.take(certain, "127.0.0.1:7070")
    assert (pointer.record.job, pointer.record.authority) == (raw["job"], "127.0.0.1:7070")
    pointer.move(pointer.record.entering(0, 1, 1))
    assert JobPointer.take(certain, "elsewhere").record == pointer.record

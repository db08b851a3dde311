"""The job record: what it keeps, how it moves, and what it refuses to be read from."""

from __future__ import annotations

import json

import pytest

from milepost.errors import RecordUnreadable
from milepost.spark.record import JobCheckpoint, JobRecord, Layer, decode


def entry(batch: int, epoch: int = 1, *layers: str) -> JobCheckpoint:
    return JobCheckpoint(batch, False, epoch, {"metadata": b"{}"}, tuple(Layer(name, "v", 10, 1) for name in layers))


def test_everything_survives_being_stored() -> None:
    checkpoint = JobCheckpoint(
        4,
        True,
        7,
        {"offsets/4": "v1\nü".encode(), "state/0/0/5.delta": b"\x00\xff"},
        (Layer("layer-e7-0", "a.9", 3, 2),),
    )
    record = JobRecord("job", 7, 4, {"page": "x"}, (checkpoint, entry(3)), entered=4, entries=2)
    assert decode(record.encode()) == record


def test_a_job_that_published_nothing_says_null() -> None:
    record = JobRecord("job", 1)
    assert json.loads(record.encode())["published"] is None
    assert decode(record.encode()) == record


def test_each_write_has_a_digest_of_its_own() -> None:
    record = JobRecord("job", 1)
    assert record.encode() != record.encode()


@pytest.mark.parametrize("state", [b"", b"[]", b"{}", b'"text"', b"\xff", b'{"schema":1,"job":"x"}'])
def test_what_is_no_record_is_refused(state: bytes) -> None:
    with pytest.raises(RecordUnreadable):
        decode(state)


def test_a_newer_schema_is_refused_by_name() -> None:
    with pytest.raises(RecordUnreadable, match="schema 2"):
        decode(JobRecord("job", 1).encode().replace(b'"schema":1', b'"schema":2'))


def test_a_final_checkpoint_resumes_after_its_batch_and_an_entry_at_it() -> None:
    assert entry(5).resumes_at == 5
    assert JobCheckpoint(5, True, 1, {}).resumes_at == 6


def test_as_many_checkpoints_are_retained_as_asked_for() -> None:
    record = JobRecord("job", 1)
    for batch in range(4):
        record = record.entering(entry(batch), retain=2).publishing(batch, None, 1)
    assert [checkpoint.batch for checkpoint in record.checkpoints] == [3, 2]


def test_a_batch_entered_anew_replaces_what_was_retained_for_it_and_later_ones() -> None:
    record = JobRecord("job", 1).entering(entry(0), 3).entering(entry(1), 3).entering(entry(2), 3)
    record = record.entering(entry(1, epoch=2), 3)
    assert [(checkpoint.batch, checkpoint.epoch) for checkpoint in record.checkpoints] == [(1, 2), (0, 1)]


def test_entries_count_until_the_batch_is_published() -> None:
    record = JobRecord("job", 1).entering(entry(0), 2)
    assert record.entries == 1
    record = record.entering(entry(0, 2), 2).entering(entry(0, 3), 2)
    assert (record.entered, record.entries) == (0, 3)
    record = record.publishing(0, None, 3)
    assert record.entries == 0
    assert record.entering(entry(0, 4), 2).entries == 1
    assert record.entering(entry(0, 4), 2).replayed(4).entries == 0
    assert record.entering(entry(1, 4), 2).entries == 1


def test_layers_are_those_of_all_retained_checkpoints() -> None:
    record = JobRecord("job", 1).entering(entry(0, 1, "a", "b"), 2).entering(entry(1, 1, "b", "c"), 2)
    assert record.layer_names() == {"a", "b", "c"}
    assert record.entering(entry(2, 1, "c"), 2).layer_names() == {"b", "c"}

"""Snapshots in files: what is there is whole, or nothing is served; a write ends in one of three ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.state.dialects.barriers import FileSnapshots, Part, Record
from milepost.state.errors import CoderError, FileMissing, FilesError, StateDamaged, WriteUnknown
from milepost.state.store import Created, LocalFiles, MemoryFiles
from tests.client.state.support.failing_files import FailingFiles, Failure

PART = Part({"k": [1, {"x": None}]}, [("s-0", Record("k", "v"))], [Record("ü", 1.5)])
EMPTY = Part({}, [], [])


def test_the_newest_epoch_is_read_back(tmp_path: Path) -> None:
    store = FileSnapshots(LocalFiles(tmp_path))
    assert store.latest() == (0, {})
    one, two = store.save(PART), store.save(EMPTY)
    assert store.latest() == (0, {})  # parts alone are no snapshot
    assert store.complete(1, {"a-0": one}) is Created.DONE
    assert store.complete(2, {"a-0": two, "b-0": one}) is Created.DONE
    assert FileSnapshots(LocalFiles(tmp_path)).latest() == (2, {"a-0": EMPTY, "b-0": PART})
    assert FileSnapshots(LocalFiles(tmp_path), "other").latest() == (0, {})


def test_an_epoch_has_one_snapshot() -> None:
    store = FileSnapshots(MemoryFiles())
    one, two = store.save(PART), store.save(EMPTY)
    assert store.complete(1, {"a-0": one}) is Created.DONE
    assert store.complete(1, {"a-0": two}) is Created.EXISTS
    assert store.complete(1, {"a-0": one}) is Created.DONE  # it is what is there
    assert store.latest() == (1, {"a-0": PART})


@pytest.mark.parametrize("place", ["parts", "epochs"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "longer"])
def test_what_is_damaged_is_named_and_not_served(tmp_path: Path, place: str, damage: str) -> None:
    store = FileSnapshots(LocalFiles(tmp_path))
    store.complete(1, {"a-0": store.save(EMPTY)})
    store.complete(2, {"a-0": store.save(PART)})
    file = max((tmp_path / "pipeline" / place).iterdir(), key=lambda one: (one.stat().st_size, one.name))
    content = file.read_bytes()
    flipped = content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
    file.write_bytes({"flipped": flipped, "cut": content[:-1], "longer": content + b" "}[damage])
    with pytest.raises(StateDamaged) as raised:
        store.latest()
    assert raised.value.path == f"pipeline/{place}/{file.name}"


def test_an_older_manifest_is_not_taken_for_a_newer_one(tmp_path: Path) -> None:
    """As a copy of files does that mixes them up: each manifest is whole, and is that of another epoch."""
    store = FileSnapshots(LocalFiles(tmp_path))
    store.complete(1, {"a-0": store.save(EMPTY)})
    store.complete(2, {"a-0": store.save(PART)})
    epochs = tmp_path / "pipeline" / "epochs"
    (epochs / "0000000002").write_bytes((epochs / "0000000001").read_bytes())
    with pytest.raises(StateDamaged, match="epochs/0000000002"):
        store.latest()


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    store = FileSnapshots(LocalFiles(tmp_path))
    name = store.save(PART)
    store.complete(1, {"a-0": name})
    (tmp_path / "pipeline" / "parts" / name).unlink()
    with pytest.raises(FileMissing, match=name):
        store.latest()


def test_a_part_does_not_count_as_saved_where_something_else_is(tmp_path: Path) -> None:
    store = FileSnapshots(LocalFiles(tmp_path))
    name = store.save(PART)
    assert store.save(PART) == name
    (tmp_path / "pipeline" / "parts" / name).write_bytes(b"something else")
    with pytest.raises(StateDamaged, match="other bytes"):
        store.save(PART)


def test_a_manifest_ends_in_one_of_three_ways() -> None:
    files = FailingFiles(MemoryFiles())
    store = FileSnapshots(files)
    one, two = store.save(PART), store.save(EMPTY)
    files.creations.append(Failure.REFUSED)
    with pytest.raises(FilesError):
        store.complete(1, {"a-0": one})
    assert store.latest() == (0, {})
    files.creations.extend([Failure.LOST, Failure.LOST])
    with pytest.raises(WriteUnknown):
        store.complete(1, {"a-0": one})
    files.creations.append(Failure.UNHEARD)
    assert store.complete(1, {"a-0": one}) is Created.DONE
    files.creations.append(Failure.LOST)
    assert store.complete(1, {"a-0": two}) is Created.EXISTS
    assert store.latest() == (1, {"a-0": PART})


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(CoderError):
        FileSnapshots(MemoryFiles()).save(Part({"k": (1, 2)}, [], []))

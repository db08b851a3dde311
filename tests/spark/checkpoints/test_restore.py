"""Checkpoints stored in the real service and built up again, whole or damaged."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from milepost.errors import (
    BlobMissing,
    ConnectionFailed,
    MilepostError,
    NoSafeCheckpoint,
    ServerFault,
    StateTruncated,
    Unavailable,
    WrongCheckpoint,
)
from milepost.spark.checkpoints import layer_index as ledger_module
from milepost.spark.checkpoints import layers
from milepost.spark.checkpoints import restore as restore_module
from milepost.spark.checkpoints.recovery import recover
from milepost.spark.checkpoints.restore import restore
from milepost.spark.checkpoints.snapshotter import Snapshotter
from milepost.spark.record import JobCheckpoint, JobRecord
from milepost.spark.store import HandleStore, SettlingStore
from milepost.wire import Code
from testbed.server import ServerProcess
from tests.spark.checkpoints.directories import log, put, tree
from tests.wire.support.damage import blob_file

FILES = {"kind": "files"}
"""The manifest of a batch that was published by `Job.files`, as far as it matters here."""


class Run:
    """A query's run in a directory of its own, and its record."""

    def __init__(self, certain: SettlingStore, directory: Path) -> None:
        self.directory = directory
        self.snapshotter = Snapshotter(certain, directory)
        self.record = JobRecord(uuid.uuid4().hex, certain.epoch)

    def enter(self, batch: int) -> JobCheckpoint:
        log(self.directory, batch, committed=False)
        checkpoint = self.snapshotter.take(batch, committed=False)
        self.record = self.record.entering(checkpoint, 2)
        return checkpoint

    def publish(self, batch: int, manifest: object = None) -> None:
        """The batch ends: its state is there, then it is published, then committed."""
        put(self.directory, f"state/0/0/{batch + 1}.delta", f"state {batch + 1}".encode() * 2000)
        self.record = self.record.publishing(batch, manifest, 1)
        log(self.directory, batch, committed=True)


@pytest.fixture
def run(certain: SettlingStore, tmp_path: Path) -> Run:
    return Run(certain, tmp_path / "e1")


def damage(service: ServerProcess, job: str, checkpoint: JobCheckpoint) -> None:
    """Flip the last byte of the newest layer."""
    path = blob_file(service, job, checkpoint.layers[-1].name)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_a_job_that_never_ran_gets_an_empty_directory(certain: SettlingStore, tmp_path: Path) -> None:
    restored = restore(certain.plain, JobRecord("job", 1), tmp_path / "work", 1)
    assert restored.directory == tmp_path / "work" / "e1"
    assert tree(restored.directory) == {}
    assert restored.checkpoint is None


def test_the_newest_checkpoint_comes_back_byte_for_byte(run: Run, certain: SettlingStore, tmp_path: Path) -> None:
    for batch in range(5):
        run.enter(batch)
        run.publish(batch)
    newest = run.enter(5)
    wanted = tree(run.directory)
    restored = restore(certain.plain, run.record, tmp_path / "work", 2)
    assert restored.checkpoint == newest
    for old in ("offsets/0", "offsets/1", "offsets/2", "offsets/3", "commits/0", "commits/1", "commits/2", "commits/3"):
        del wanted[old]
    assert tree(restored.directory) == wanted
    assert not (tmp_path / "work" / "e2.tmp").exists()


def test_what_was_restored_is_not_uploaded_again(run: Run, certain: SettlingStore, tmp_path: Path) -> None:
    run.enter(0)
    run.publish(0)
    run.enter(1)
    restored = restore(certain.plain, run.record, tmp_path / "work", 2)
    before = {handle.name for handle in certain.plain.get_all_handles()}
    again = Snapshotter(certain, restored.directory, restored.layer_index).take(1, committed=False)
    assert {handle.name for handle in certain.plain.get_all_handles()} == before
    assert again.layers == run.record.checkpoints[0].layers


def naming(directory: Path) -> str:
    """Operator metadata that names a file of its own directory, and is too much for the record."""
    return f'v2\n{{"stateSchemaFilePaths":["file:{directory}/state/0/_stateSchema/0_7f"],"more":"{"m" * 9000}"}}'


def test_files_that_name_their_directory_name_the_one_they_come_to(certain: SettlingStore, tmp_path: Path) -> None:
    """From the second epoch on they come from the first one's layer, and are not uploaded again."""
    job = tmp_path / "work" / "0a1b"
    run = Run(certain, job / "e1")
    path = "state/0/_metadata/v2/0"
    put(run.directory, path, naming(run.directory))
    run.enter(0)
    for epoch, workdir in ((2, job), (3, tmp_path / "wörk dir" / "0a1b")):
        restored = restore(certain.plain, run.record, workdir, epoch)
        assert (restored.directory / path).read_text() == naming(workdir / f"e{epoch}")
        run.snapshotter = Snapshotter(certain, restored.directory, restored.layer_index)
        before = run.record.checkpoints[0].layers
        assert run.snapshotter.take(0, committed=False).layers == before


def test_a_checkpoint_that_is_bound_to_its_directory_is_not_gone_on_from(
    certain: SettlingStore, tmp_path: Path
) -> None:
    """As one would be that was stored without a look at it."""
    run = Run(certain, tmp_path / "0a1b" / "e1")
    put(run.directory, "state/0/_metadata/v2/0", naming(run.directory))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "portable", lambda _path, content, _directory: content)
        run.enter(0)
    with pytest.raises(WrongCheckpoint, match=r"_metadata/v2/0 of the checkpoint names …/0a1b/e1"):
        restore(certain.plain, run.record, tmp_path / "0a1b", 2)
    assert not (tmp_path / "0a1b" / "e2").exists()


def test_a_final_checkpoint_goes_on_behind_its_batch(run: Run, certain: SettlingStore, tmp_path: Path) -> None:
    run.enter(0)
    run.publish(0)
    run.record = run.record.ending(run.snapshotter.take(0, committed=True), 2)
    restored = restore(certain.plain, run.record, tmp_path / "work", 2)
    assert restored.checkpoint is not None
    assert restored.checkpoint.resumes_at == 1
    assert "commits/0" in tree(restored.directory)
    assert "state/0/0/1.delta" in tree(restored.directory)


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    run: Run, certain: SettlingStore, tmp_path: Path, service: ServerProcess, name: str
) -> None:
    """Output files that nobody saw may be written anew, with other rows in each batch."""
    run.enter(0)
    run.publish(0, FILES)
    newest = run.enter(1)
    damage(service, name, newest)
    restored = restore(certain.plain, run.record, tmp_path / "work", 2)
    assert restored.checkpoint is not None
    assert restored.checkpoint.resumes_at == 0
    assert [skipped.checkpoint for skipped in restored.skipped] == [newest]
    assert "damaged" in restored.skipped[0].reason
    assert set(tree(restored.directory)) == {"metadata", "offsets/0"}


@pytest.mark.parametrize("manifest", [None, {"kind": "of the user's own"}])
def test_a_batch_that_a_sink_may_know_is_not_divided_anew(
    run: Run, certain: SettlingStore, tmp_path: Path, service: ServerProcess, name: str, manifest: object
) -> None:
    """Batch 1 was entered: a table that counts by batch may hold it, as it was cut then."""
    run.enter(0)
    run.publish(0, manifest)
    newest = run.enter(1)
    damage(service, name, newest)
    before = {handle.name for handle in certain.plain.get_all_handles()}
    with pytest.raises(NoSafeCheckpoint, match=r"older than batch 1, which was entered.*put the damaged bytes back"):
        restore(certain.plain, run.record, tmp_path / "work", 2)
    assert {handle.name for handle in certain.plain.get_all_handles()} == before


class CutOff:
    """The real store, behind a connection that is cut inside each state: the network cannot be had to do so on time.

    ``obstacle`` is what each attempt to read on meets.
    """

    def __init__(self, real: HandleStore, obstacle: MilepostError) -> None:
        self._real = real
        self._obstacle = obstacle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    @contextmanager
    def open(self, name: str, version: str | None = None) -> Iterator[Iterator[bytes]]:
        def chunks(real: Iterator[bytes]) -> Iterator[bytes]:
            yield next(real)[:100]
            raise StateTruncated("the rest is refused") from self._obstacle

        with self._real.open(name, version) as real:
            yield chunks(real)


@pytest.mark.parametrize(
    "obstacle", [Unavailable(Code.NO_LEADER), ConnectionFailed("reset"), ServerFault(Code.INTERNAL)]
)
def test_an_outage_while_unpacking_is_no_damage(
    run: Run, certain: SettlingStore, tmp_path: Path, obstacle: MilepostError
) -> None:
    run.enter(0)
    run.publish(0, FILES)
    newest = run.enter(1)
    with pytest.raises(type(obstacle)):
        restore(CutOff(certain.plain, obstacle), run.record, tmp_path / "work", 2)
    assert restore(certain.plain, run.record, tmp_path / "work", 2).checkpoint == newest


def test_bytes_that_end_early_because_they_are_gone_are_damage(
    run: Run, certain: SettlingStore, tmp_path: Path
) -> None:
    run.enter(0)
    run.publish(0, FILES)
    newest = run.enter(1)
    gone = CutOff(certain.plain, BlobMissing(Code.BLOB_MISSING))
    restored = restore(gone, run.record, tmp_path / "work", 2)
    assert [skipped.checkpoint for skipped in restored.skipped] == [newest]


def test_a_missing_layer_is_damage_too(run: Run, certain: SettlingStore, tmp_path: Path) -> None:
    run.enter(0)
    run.publish(0, FILES)
    newest = run.enter(1)
    certain.plain.release_and_try_remove(newest.layers[-1].name)
    restored = restore(certain.plain, run.record, tmp_path / "work", 2)
    assert [skipped.checkpoint for skipped in restored.skipped] == [newest]


def test_an_intact_checkpoint_that_is_too_old_is_refused(
    run: Run, certain: SettlingStore, tmp_path: Path, service: ServerProcess, name: str
) -> None:
    """Batch 1 is published: the entry to batch 0 does not know which input that was."""
    run.enter(0)
    run.publish(0)
    newest = run.enter(1)
    run.publish(1)
    damage(service, name, newest)
    with pytest.raises(NoSafeCheckpoint, match=r"batch 1 .* damaged.* older than the published batch 1"):
        restore(certain.plain, run.record, tmp_path / "work", 2)
    assert list((tmp_path / "work").iterdir()) == []


def test_a_job_that_published_without_any_checkpoint_is_refused(certain: SettlingStore, tmp_path: Path) -> None:
    record = JobRecord("job", 1).publishing(3, None, 1)
    with pytest.raises(NoSafeCheckpoint, match="names none"):
        restore(certain.plain, record, tmp_path / "work", 2)


def test_no_directory_is_used_twice(certain: SettlingStore, tmp_path: Path) -> None:
    (tmp_path / "work" / "e2").mkdir(parents=True)
    with pytest.raises(WrongCheckpoint, match="e2"):
        restore(certain.plain, JobRecord("job", 1), tmp_path / "work", 2)


def test_what_a_dead_driver_left_half_built_is_built_anew(run: Run, certain: SettlingStore, tmp_path: Path) -> None:
    put(tmp_path / "work" / "e2.tmp", "state/0/0/9.delta", b"left over")
    run.enter(0)
    restored = restore(certain.plain, run.record, tmp_path / "work", 2)
    assert set(tree(restored.directory)) == {"metadata", "offsets/0"}


class Disk:
    """A disk that is full for as long as there is one of ``filling``: no test can fill a real one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *filling: Path) -> None:
        self._filling = filling
        monkeypatch.setattr(restore_module, "unpack", self.unpack)

    def unpack(self, chunks: Iterator[bytes], root: Path) -> list[str]:
        if any(path.exists() for path in self._filling):
            put(root, "state/0/0/1.delta", b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        return layers.unpack(chunks, root)


@pytest.mark.parametrize("left", ["e1", "e1.tmp", ".e1.layer"])
def test_a_disk_that_dead_drivers_filled_makes_room_for_the_next(
    certain: SettlingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """What they left is cleared away first, where it is no use to anybody, or where there is no other room."""
    run = Run(certain, tmp_path / "elsewhere")
    run.enter(0)
    run.publish(0)
    newest = run.enter(1)
    work = tmp_path / "work"
    put(work / "e1", "metadata", b"{}")
    if left != "e1":
        put(work, left, b"half an archive") if left.startswith(".") else put(work / left, "metadata", b"{}")
    Disk(monkeypatch, work / left)
    restored, recovery = recover(certain.plain, run.record, work, 2, setting=lambda _: None, modified_ms=lambda _: None)
    assert recovery.checkpoint == newest
    assert "state/0/0/1.delta" in tree(restored.directory)
    assert sorted(path.name for path in work.iterdir()) == (["e2"] if left == "e1" else ["e1", "e2"])


def test_a_disk_without_room_is_reported_and_nothing_more_left_on_it(
    run: Run, certain: SettlingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.enter(0)
    run.publish(0)
    run.enter(1)
    Disk(monkeypatch, tmp_path)
    with pytest.raises(OSError, match="No space left"):
        recover(certain.plain, run.record, tmp_path / "work", 2, setting=lambda _: None, modified_ms=lambda _: None)
    assert list((tmp_path / "work").iterdir()) == []


def test_many_batches_with_maintenance_come_back_as_they_were(
    run: Run, certain: SettlingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old versions are deleted underway, layers are dropped and merged; all that was there at the end comes back."""
    monkeypatch.setattr(ledger_module, "MAX_LAYERS", 4)
    for batch in range(12):
        run.enter(batch)
        run.publish(batch)
        for old in (f"state/0/0/{batch - 3}.delta", f"offsets/{batch - 3}", f"commits/{batch - 3}"):
            (run.directory / old).unlink(missing_ok=True)
    newest = run.enter(12)
    assert len(newest.layers) <= 4
    restored = restore(certain.plain, run.record, tmp_path / "work", 2)
    wanted = {path: content for path, content in tree(run.directory).items() if path.startswith("state/")}
    assert wanted.items() <= tree(restored.directory).items()

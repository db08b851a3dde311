"""The file of a backup: what is in it comes out again, and what is cut short, altered or damaged is told."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from milepost.cli.backup.archive import ArchiveWriter, checked, opened
from milepost.cli.backup.format import (
    DAMAGED,
    END,
    HEAD,
    BadBackup,
    FileRecord,
    HandleRecord,
    SnapshotRecord,
    StoreRecord,
    history_of,
)
from milepost.errors import ConnectionFailed, Corrupt
from milepost.job_types import HistoryEntry
from milepost.types import Process
from milepost.wire import Code

LARGE = bytes(range(256)) * 5000
HISTORY = (
    HistoryEntry(DAMAGED, page="acts-1", reason="JSON is malformed"),
    HistoryEntry(
        "epoch-granted",
        datetime(2026, 1, 1, 12, 0, 0, 250_000, timezone.utc),
        42,
        id="42.0",
        epoch=7,
        session="s",
        holder="Änne",
        process=Process("spark-1", 4711),
    ),
    HistoryEntry(
        "batch-committed",
        datetime(2026, 1, 1, 12, 0, 1, 0, timezone.utc),
        43,
        epoch=7,
        batch=0,
        directory="",
        replay=True,
        input_rows=0,
        since=datetime(2026, 1, 1, 12, 0, 0, 500_000, timezone.utc),
    ),
)


class Pipe(io.RawIOBase):
    """What cannot go back."""

    def __init__(self) -> None:
        self.written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.written += memoryview(data)  # type: ignore[arg-type]
        return len(memoryview(data))  # type: ignore[arg-type]


def written() -> bytes:
    """A backup of two stores."""
    pipe = Pipe()
    archive = ArchiveWriter(pipe)  # type: ignore[arg-type]
    archive.begin_store()
    member, sha256, failure = archive.add_data(
        len(LARGE), (LARGE[start : start + 999] for start in range(0, len(LARGE), 999))
    )
    assert failure is None
    store = StoreRecord("first", 7, None, [HandleRecord("a", len(LARGE), sha256, {"k": "ä"}, member=member)])
    empty = archive.add_data(0, [])
    store.snapshots.append(SnapshotRecord(3, "checkpoint", 1, "savepoint"))
    store.files.append(FileRecord("checkpoint/empty", (3, 4), sha256=empty[1], member=empty[0]))
    store.history += HISTORY
    archive.end_store(store)
    archive.begin_store()
    archive.end_store(StoreRecord("second", damage="of a test"))
    assert archive.end() == {"stores": 2, "handles": 1, "files": 1, "bytes": len(LARGE), "damaged": 2}
    return bytes(pipe.written)


def read(data: bytes) -> list[StoreRecord]:
    """The stores of a backup."""
    return list(checked(io.BytesIO(data), lambda _: None).stores())


def test_what_was_written_is_read() -> None:
    backup = checked(io.BytesIO(written()), lambda _: None)
    first, second = backup.stores()
    assert (first.name, first.epoch, second.damage) == ("first", 7, "of a test")
    (handle,) = first.handles
    assert handle.labels == {"k": "ä"}
    assert handle.member is not None
    content = backup.slice(handle.member)
    assert content.read() == LARGE
    assert (content.seek(-10, io.SEEK_END), content.read()) == (len(LARGE) - 10, LARGE[-10:])
    assert first.files[0].at == (3, 4)
    assert first.snapshots[0].commit == "checkpoint/commits/1"
    assert list(second.damages()) == ["store second: of a test"]
    assert tuple(first.history) == HISTORY
    assert list(first.damages()) == ["history of first: acts-1: JSON is malformed"]
    assert second.history == [], "as in a backup of a release that saves no histories"
    assert backup.made.tzinfo is not None


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON",
        b"[]",
        b'{"at":"2026-01-01T12:00:00.000Z","revision":1}',
        b'{"kind":"dropped"}',
        b'{"kind":"dropped","at":"yesterday","revision":1}',
        b'{"kind":"dropped","at":"2026-13-01T12:00:00.000Z","revision":1}',
        b'{"kind":"dropped","at":"2026-01-01T12:00:00.000Z","revision":-1}',
        b'{"kind":"dropped","at":"2026-01-01T12:00:00.000Z","revision":1,"batch":"7"}',
        b'{"kind":"dropped","at":"2026-01-01T12:00:00.000Z","revision":1,"process":[]}',
        b'{"kind":"damaged"}',
    ],
)
def test_a_history_of_another_form_is_refused(line: bytes) -> None:
    with pytest.raises(BadBackup, match="history"):
        history_of([line])
    (later,) = history_of([b'{"kind":"new","at":"2026-01-01T12:00:00Z","revision":1,"added":"by a later release"}'])
    assert later.kind == "new"


def test_one_that_is_cut_short_anywhere_is_told() -> None:
    data = written()
    end = data.index(END.encode())
    for size in [0, 1, 511, 512, *range(600, end, 97_001), end - 1, end + 100, end + 511]:
        with pytest.raises(BadBackup):
            read(data[:size])


def test_one_that_is_altered_anywhere_is_told_or_the_same() -> None:
    """What tar itself pads, and the times that it keeps of members, mean nothing and are not part of the digest."""
    data = written()
    before = read(data)
    for place in [*range(0, len(data), 40_009), *range(len(data) - 24_000, len(data), 607)]:
        altered = bytearray(data)
        altered[place] ^= 1
        try:
            assert read(bytes(altered)) == before
        except BadBackup:
            continue


@pytest.mark.parametrize("what", [b'"handles": 1', b'"damaged": 2'])
def test_counts_that_were_altered_are_told(what: bytes) -> None:
    data = written()
    assert data.count(what) == 1
    with pytest.raises(BadBackup, match="altered"):
        read(data.replace(what, what[:-1] + b"3"))


def test_a_newer_version_and_what_is_no_backup_are_told_apart() -> None:
    with pytest.raises(BadBackup, match="version 9"):
        read(written().replace(b'"version": 1', b'"version": 9'))
    other = io.BytesIO()
    with tarfile.open(fileobj=other, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a"), io.BytesIO())
    for data in (other.getvalue(), b"no tar at all" * 100, bytes(2048)):
        with pytest.raises(BadBackup):
            read(data)
    assert HEAD.encode() in written()[:512]


@pytest.mark.parametrize("more", [written, lambda: b"x" * 512, lambda: bytes(600_000) + b"x"])
def test_what_was_put_behind_its_end_is_refused(more: Callable[[], bytes]) -> None:
    with pytest.raises(BadBackup, match="behind its end"):
        read(written() + more())
    assert read(written() + bytes(600_000)) == read(written()), "a tape is filled up with zeros"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.GNUTYPE_SPARSE, tarfile.DIRTYPE])
def test_a_tar_with_links_holes_or_directories_is_none(kind: bytes) -> None:
    """In the place of the first member, and behind all others."""
    link = tarfile.TarInfo("link")
    link.type, link.linkname = kind, HEAD
    data = written()
    for tar in (link.tobuf() + bytes(1024), data[: data.index(END.encode())] + link.tobuf() + bytes(1024)):
        with pytest.raises(BadBackup):
            read(tar)


def test_a_long_list_is_not_read_byte_by_byte() -> None:
    archive = ArchiveWriter(pipe := Pipe())  # type: ignore[arg-type]
    archive.begin_store()
    member, sha256, _ = archive.add_data(1, [b"x"])
    archive.end_store(StoreRecord("s", handles=[HandleRecord(f"h{n}", 1, sha256, member=member) for n in range(500)]))
    archive.end()

    class Counting(io.BytesIO):
        reads = 0

        def read(self, size: int | None = -1, /) -> bytes:
            Counting.reads += 1
            return super().read(size)

    backup = checked(Counting(bytes(pipe.written)), lambda _: None)
    Counting.reads = 0
    (store,) = backup.stores()
    assert len(store.handles) == 500
    assert Counting.reads < 10


def test_a_backup_on_standard_input_is_read_as_well() -> None:
    with opened(Path("-"), io.BytesIO(written()), lambda _: None) as backup:
        assert [store.name for store in backup.stores()] == ["first", "second"]


@pytest.mark.parametrize("error", [Corrupt(Code.CORRUPT, "flipped"), None])
def test_bytes_that_break_off_are_filled_up_and_named(error: Exception | None) -> None:
    def chunks() -> Iterator[bytes]:
        yield LARGE[:1000]
        if error is not None:
            raise error

    pipe = Pipe()
    archive = ArchiveWriter(pipe)  # type: ignore[arg-type]
    archive.begin_store()
    _, _, failure = archive.add_data(len(LARGE), chunks())
    assert failure is not None
    store = StoreRecord("s", handles=[HandleRecord("a", len(LARGE), damage=failure), HandleRecord("b")])
    archive.end_store(store)
    archive.end()
    (found,) = read(bytes(pipe.written))
    assert list(found.damages()) == [f"handle s/a: {failure}"]


def test_an_outage_ends_the_backup_instead() -> None:
    def chunks() -> Iterator[bytes]:
        yield LARGE[:1000]
        raise ConnectionFailed("away")

    archive = ArchiveWriter(Pipe())  # type: ignore[arg-type]
    archive.begin_store()
    with pytest.raises(ConnectionFailed):
        archive.add_data(len(LARGE), chunks())

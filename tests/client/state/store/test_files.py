"""What a place for files promises, and what a directory does beside that."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.state.errors import FileMissing, FilesError, InvalidUse, WriteUnknown
from milepost.state.store import Created, FileInfo, LocalFiles, MemoryFiles, StateFiles
from milepost.state.store.files import local
from milepost.state.store.files.contract import FilesWithin, create_once
from tests.client.state.support.full_disk import full_disk
from tests.client.state.support.trees import in_a_tree


@pytest.fixture(params=["memory", "local", "tree", "within"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateFiles]:
    if request.param == "tree":
        with in_a_tree(request.getfixturevalue("service").url, request.node.name) as files:
            yield files
        return
    if request.param == "within":
        yield FilesWithin(MemoryFiles(), "a/b")
        return
    yield MemoryFiles() if request.param == "memory" else LocalFiles(tmp_path / "state")


def test_a_file_is_written_once(place: StateFiles) -> None:
    assert place.create("0/1/a", b"first") is Created.DONE
    assert place.create("0/1/a", b"second") is Created.EXISTS
    assert place.read("0/1/a", 0, 100) == b"first"


def test_of_many_that_create_one_file_one_does(place: StateFiles) -> None:
    found: list[Created] = []
    threads = [threading.Thread(target=lambda n=n: found.append(place.create("a/b", bytes([n]) * 9))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(found, key=str) == [Created.DONE] + [Created.EXISTS] * 7
    assert len(set(place.read("a/b", 0, 99))) == 1


def test_a_part_is_read(place: StateFiles) -> None:
    place.create("a", b"0123456789")
    assert [place.read("a", 3, 4), place.read("a", 8, 100), place.read("a", 50, 1)] == [b"3456", b"89", b""]
    with pytest.raises(FileMissing):
        place.read("b", 0, 1)


def test_a_directory_is_listed_and_files_are_deleted(place: StateFiles) -> None:
    assert place.list("0/1") == []
    for name in ("0/1/b", "0/1/a", "0/10/c", "0/1/d/e"):
        place.create(name, b"xy")
    listed = place.list("0/1")
    assert [(info.name, info.size) for info in listed] == [("0/1/a", 2), ("0/1/b", 2)]
    assert all(0.0 <= info.age < 60.0 for info in listed)
    place.delete("0/1/a")
    place.delete("0/1/a")
    assert [info.name for info in place.list("0/1")] == ["0/1/b"]


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../b", "a//b", "a/", ".a", "a/.b", "a\0", "a b"])
def test_a_name_that_is_no_path_of_a_file_is_refused(place: StateFiles, name: str) -> None:
    with pytest.raises(InvalidUse):
        place.create(name, b"")


def test_a_draft_that_nobody_finishes_is_not_listed_and_goes_later(tmp_path: Path) -> None:
    place = LocalFiles(tmp_path)
    place.create("0/a", b"")
    fresh, old = tmp_path / "0" / ".draft-1", tmp_path / "0" / ".draft-2"
    for draft in (fresh, old):
        draft.write_bytes(b"half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert [info.name for info in place.list("0")] == ["0/a"]
    assert (fresh.exists(), old.exists()) == (True, False)


def test_who_may_not_remove_an_old_draft_lists_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one who only reads the state of others: the tests may run as root, whom no mode keeps out."""

    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    place = LocalFiles(tmp_path)
    place.create("0/a", b"")
    draft = tmp_path / "0" / ".draft-1"
    draft.write_bytes(b"half")
    os.utime(draft, (time.time() - 7200, time.time() - 7200))
    monkeypatch.setattr(os, "unlink", refuse)
    assert [info.name for info in place.list("0")] == ["0/a"]


def test_a_failed_link_leaves_nothing_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without hard links; there is none here to mount."""

    def refuse(_from: Path, to: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", str(to))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(FilesError, match="hard links"):
        LocalFiles(tmp_path).create("a", b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_and_the_error_names_the_file(tmp_path: Path) -> None:
    place = LocalFiles(tmp_path)
    with full_disk(1000), pytest.raises(FilesError, match=f"cannot write {tmp_path}/a/b: File too large"):
        place.create("a/b", bytes(2000))
    assert list((tmp_path / "a").iterdir()) == []
    assert place.create("a/b", bytes(2000)) is Created.DONE


def test_a_file_whose_directory_cannot_be_made_durable_may_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_directory: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    place = LocalFiles(tmp_path)
    monkeypatch.setattr(local, "sync", fail)
    with pytest.raises(WriteUnknown):
        place.create("a", b"x")
    assert place.read("a", 0, 9) == b"x"


def test_a_link_whose_answer_is_lost_may_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system of another machine, whose answer does not come; there is none here to take away."""
    link = os.link

    def done_and_lost(draft: Path, path: Path) -> None:
        link(draft, path)
        raise OSError(errno.EIO, "Input/output error", str(path))

    place = LocalFiles(tmp_path)
    monkeypatch.setattr(os, "link", done_and_lost)
    with pytest.raises(WriteUnknown, match="a/b"):
        place.create("a/b", b"x")
    assert place.read("a/b", 0, 9) == b"x"
    assert create_once(place, "a/c", b"y") is Created.DONE  # it is read back
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["b", "c"]


def test_a_draft_that_cannot_be_removed_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is there under its name by then, so an error would say of it what is not so."""

    def fail(path: Path, **_: bool) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    place = LocalFiles(tmp_path)
    monkeypatch.setattr(Path, "unlink", fail)
    assert place.create("a/b", b"x") is Created.DONE
    assert place.create("a/b", b"y") is Created.EXISTS
    assert [info.name for info in place.list("a")] == ["a/b"]
    assert place.read("a/b", 0, 9) == b"x"


def test_a_place_that_cannot_be_made_is_an_error_of_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FilesError):
        LocalFiles(tmp_path / "file" / "below")


def test_files_of_memory_age_by_the_clock_they_are_given() -> None:
    now = [5.0]
    place = MemoryFiles(lambda: now[0])
    place.create("a/b", b"x")
    now[0] = 12.0
    assert place.list("a") == [FileInfo("a/b", 1, 7.0)]


def test_directories_of_one_place_are_apart() -> None:
    place = MemoryFiles()
    first, second = FilesWithin(place, "one"), FilesWithin(place, "two/deep")
    assert [first.create("0/a", b"1"), second.create("0/a", b"2")] == [Created.DONE] * 2
    assert (first.read("0/a", 0, 9), second.read("0/a", 0, 9)) == (b"1", b"2")
    assert [info.name for info in second.list("0")] == ["0/a"]
    first.delete("0/a")
    assert not first.list("0")
    assert place.read("two/deep/0/a", 0, 9) == b"2"
    for name in ("../a", "/a", ""):
        with pytest.raises(InvalidUse):
            first.read(name, 0, 1)
        with pytest.raises(InvalidUse):
            FilesWithin(place, name)

"""The files of a job in Python, in both flavours, over the real service."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import milepost
from milepost import JobFile, WrittenFile
from tests.client.conftest import Service

SMALL, LARGE = b"a few bytes", bytes(range(256)) * 6000


@pytest.fixture
def files(client: Any, name: str) -> Iterator[Any]:
    """As an executor has them: it knows the epoch, and has no session."""
    with client.session(holder="driver", ttl=60) as session:
        epoch = session.store(name).campaign().epoch
        yield client.store(name).under(epoch).files


@pytest.mark.parametrize("content", [SMALL, LARGE, b""], ids=["small", "large", "empty"])
def test_a_file_is_written_and_read(files: Any, content: bytes) -> None:
    told: list[tuple[int, int | None]] = []
    made = files.write("state/0/a b", content, progress=lambda *done: told.append(done))
    assert isinstance(made, WrittenFile)
    assert (made.path, made.size, made.created) == ("state/0/a b", len(content), True)
    assert told[-1] == (len(content), len(content))
    told.clear()
    assert files.read("state/0/a b", progress=lambda *done: told.append(done)) == content
    assert told[-1] == (len(content), len(content))
    found = files.get("state/0/a b")
    assert (found.size, found.sha256, found.version, found.directory) == (
        len(content),
        made.sha256,
        made.version,
        False,
    )
    (listed,) = files.list("state/0")
    assert isinstance(listed, JobFile)
    assert (listed.path, listed.sha256, listed.version, listed.epoch) == (made.path, made.sha256, made.version, 1)
    assert listed.age is not None
    assert 0.0 <= listed.age < 300.0
    assert abs((listed.modified - found.modified).total_seconds()) <= 1.0
    assert files.write("state/0/a b", io.BytesIO(b"newer")).created is False
    assert files.read("state/0/a b") == b"newer"


def test_large_files_come_in_chunks(files: Any) -> None:
    made = files.write("a", (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000)))
    assert made.size == len(LARGE)
    with files.open("a", made.version) as chunks:
        assert b"".join(chunks) == LARGE
    with pytest.raises(milepost.VersionMismatch), files.open("a", "1.other"):
        pass


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("span", [(0, 4), (3, 5), (5, None), (0, 10**9), (7, 0), (10**9, 5), (10**9, None)])
def test_a_part_is_read(files: Any, content: bytes, span: tuple[int, int | None]) -> None:
    files.write("a", content)
    start, length = span
    wanted = content[start : None if length is None else start + length]
    assert files.read("a", start, length) == wanted
    with pytest.raises(milepost.NotExist):
        files.read("b", start, length)


def test_a_file_that_has_to_be_new_takes_no_place(files: Any) -> None:
    files.write("a", b"first", only_new=True)
    with pytest.raises(milepost.AlreadyExists) as refused:
        files.write("a", b"second", only_new=True)
    assert refused.value.outcome is milepost.Outcome.NOT_APPLIED
    assert files.read("a") == b"first"


def test_directories(files: Any) -> None:
    files.make_directory("d/e")
    files.make_directory("d/e")
    files.write("d/f", SMALL)
    assert [(entry.path, entry.directory, entry.sha256 is None) for entry in files.list("d", 1)] == [
        ("d/e", True, True),
        ("d/f", False, False),
    ]
    calls: list[Any] = [lambda: files.get("d"), lambda: files.read("d"), lambda: list(files.list("none"))]
    for call in calls:
        with pytest.raises(milepost.NotExist):
            call()
    wrongs: list[Any] = [lambda: files.write("d/f/g", b""), lambda: files.make_directory("d/f")]
    for wrong in [*wrongs, lambda: list(files.list("d/f"))]:
        with pytest.raises(milepost.NotDirectory):
            wrong()
    with pytest.raises(milepost.NotEmpty):
        files.delete("d")
    files.delete("d", recursive=True)
    files.delete("d")
    assert list(files.list()) == []


def test_a_deposed_driver_writes_nothing_more(client: Any, files: Any, name: str) -> None:
    files.write("a", b"stays")
    with client.session() as session:
        other = session.store(name)
        with pytest.raises(milepost.EpochHeld):
            other.campaign(0.0)
    for fenced in (client.store(name).under(7).files, client.store(name).files):
        with pytest.raises(milepost.Fenced):
            fenced.write("a", b"zombie")
        with pytest.raises(milepost.Fenced):
            fenced.delete("a")
        with pytest.raises(milepost.Fenced):
            fenced.make_directory("d")
        assert fenced.read("a") == b"stays"


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", ".", "a/../b", "a\x00", "a\nb", "\udcff"])
def test_a_path_that_no_file_can_have_is_refused_before_anything_is_sent(files: Any, path: str) -> None:
    calls: list[Any] = [lambda: files.write(path, b""), lambda: files.read(path), lambda: files.get(path)]
    for call in [*calls, lambda: files.delete(path)]:
        with pytest.raises(milepost.InvalidName):
            call()


@pytest.mark.parametrize("path", ["a\u00a0b", "d/\u2028", "\u200b", "\x85", "\ue000", "a%20b+c?d#e"])
def test_a_path_that_was_listed_can_be_read(files: Any, path: str) -> None:
    files.write(path, SMALL)
    (listed,) = files.list(path.rpartition("/")[0])
    assert listed.path == path
    assert files.read(listed.path) == SMALL
    assert files.get(listed.path).version == listed.version
    files.delete(listed.path)
    with pytest.raises(milepost.NotExist):
        files.get(path)


def test_wrong_parts_are_refused(files: Any) -> None:
    files.write("a", b"x")
    for wrong in ((-1, None), (0, -1)):
        with pytest.raises(ValueError, match="0 or more"):
            files.read("a", *wrong)


def test_what_a_listing_returns_is_plain(files: Any, service: Service) -> None:
    files.write("a", b"x")
    (entry,) = files.list()
    assert pickle.loads(pickle.dumps(entry)) == entry
    assert service.url not in repr(files)

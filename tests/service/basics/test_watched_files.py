"""What was read from files is exchanged as a whole, once they are at rest, and stays where they cannot be used."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from milepost_server.basics.watched_files import WatchedFiles

log = logging.getLogger("milepost.of-this-test")


class Read:
    """Two files that have to say the same, and what was told of their changes."""

    def __init__(self, directory: Path) -> None:
        self.files = (directory / "one", directory / "two")
        self.told: list[tuple[str, str]] = []
        self.write("first")
        self.watched = WatchedFiles(self.files, self.read, "words", log, lambda old, new: self.told.append((old, new)))

    def read(self) -> str:
        one, two = (file.read_text() for file in self.files)
        if one != two:
            raise ValueError("they do not say the same")
        return one

    def write(self, *texts: str) -> None:
        for file, text in zip(self.files, texts * 2 if len(texts) == 1 else texts, strict=True):
            draft = file.with_suffix(".new")
            draft.write_text(text)
            draft.replace(file)

    def look(self, times: int = 2) -> str:
        for _ in range(times):
            self.watched.look()
        return self.watched.now


@pytest.fixture
def read(tmp_path: Path) -> Read:
    return Read(tmp_path)


def test_a_change_is_read_at_the_second_look_and_told_once(read: Read) -> None:
    assert read.look(3) == "first"
    read.write("second")
    assert read.look(1) == "first"
    assert read.look(1) == "second"
    read.look(3)
    assert read.told == [("first", "second")]


def test_files_that_are_still_changing_are_left_alone(read: Read) -> None:
    for text in "abc":
        read.write(text)
        assert read.look(1) == "first"
    assert read.look(1) == "c"


def test_what_cannot_be_used_is_said_once_and_what_was_there_stays(
    read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    read.write("one", "other")
    assert read.look(4) == "first"
    (said,) = caplog.messages
    assert said.startswith("the new words cannot be used: they do not say the same; those from before stay in use")
    read.files[0].unlink()
    assert read.look(4) == "first"
    assert len(caplog.messages) == 2
    read.write("third")
    assert read.look() == "third"
    assert read.told == [("first", "third")]


def test_what_cannot_be_used_at_first_is_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        WatchedFiles((tmp_path / "absent",), (tmp_path / "absent").read_text, "words", log, lambda _old, _new: None)

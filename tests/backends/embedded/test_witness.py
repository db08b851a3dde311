"""The witness: what it says after each write, after torn ones, and after writes that failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from milepost_backends.contract import Head
from milepost_backends.embedded.witness import DAMAGED, GONE, FileWitness
from milepost_backends.embedded.witness import Testimony as Said

BLOCK = 4096
FIRST = Head("root", 3, 7, "abcdef012345", "1-" + "a" * 32)


def later(head: Head, by: int = 1) -> Head:
    return replace(head, revision=head.revision + by)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.witness"


@pytest.fixture
def witness(path: Path) -> FileWitness:
    return FileWitness(path)


def test_it_says_what_was_recorded_last(witness: FileWitness, path: Path) -> None:
    assert witness.ask("root") == Said(None, GONE)
    witness.begin(FIRST)
    assert FileWitness(path).ask("root") == Said(FIRST, None)
    for by in range(1, 6):
        witness.note(later(FIRST, by))
        assert FileWitness(path).ask("root") == Said(later(FIRST, by), None)
    assert path.stat().st_size == 2 * BLOCK
    assert path.stat().st_mode & 0o777 == 0o600


def test_each_journal_has_slots_of_its_own(witness: FileWitness, path: Path) -> None:
    odd = replace(FIRST, journal="with blanks, and " + "long " * 50)
    for head in (FIRST, odd):
        assert witness.ask(head.journal).head is None
        witness.begin(head)
        witness.note(later(head))
    for head in (FIRST, odd):
        assert FileWitness(path).ask(head.journal) == Said(later(head), None)
    assert FileWitness(path).ask("other") == Said(None, None)


@pytest.mark.parametrize("slot", [0, 1])
def test_a_torn_slot_leaves_the_other(witness: FileWitness, path: Path, slot: int) -> None:
    witness.begin(FIRST)
    witness.note(later(FIRST))
    content = bytearray(path.read_bytes())
    content[slot * BLOCK + 30] ^= 1
    path.write_bytes(content)
    found = FileWitness(path).ask("root")
    assert found.trouble == DAMAGED
    assert found.head in (FIRST, later(FIRST))
    again = FileWitness(path)
    again.ask("root")
    again.begin(later(FIRST, 2))
    assert FileWitness(path).ask("root") == Said(later(FIRST, 2), None)


def test_without_a_slot_that_proves_itself_it_says_so(witness: FileWitness, path: Path) -> None:
    path.write_bytes(b"\xff" * 2 * BLOCK)
    assert witness.ask("root") == Said(None, DAMAGED)
    witness.begin(FIRST)
    assert FileWitness(path).ask("root") == Said(FIRST, None)


def test_a_note_after_a_beginning_that_failed_begins(witness: FileWitness, path: Path) -> None:
    witness.path = path.parent / "absent" / path.name
    witness.ask("root")
    with pytest.raises(FileNotFoundError):
        witness.begin(FIRST)
    with pytest.raises(FileNotFoundError):
        witness.note(later(FIRST))
    witness.path = path
    witness.note(later(FIRST, 2))
    assert FileWitness(path).ask("root") == Said(later(FIRST, 2), None)


def test_a_note_that_failed_spoils_no_more_than_its_own_slot(
    witness: FileWitness, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write cut short is made up: the disk would have to be full, and blocks of this file to be moved."""
    witness.begin(FIRST)
    witness.note(later(FIRST))
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, content, at: real(descriptor, content[:60], at))
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            witness.note(later(FIRST, 2))
        assert FileWitness(path).ask("root") == Said(later(FIRST), DAMAGED)
    monkeypatch.undo()
    witness.note(later(FIRST, 3))
    assert FileWitness(path).ask("root") == Said(later(FIRST, 3), None)

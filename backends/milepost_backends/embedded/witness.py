"""Keeps a witness beside the database: the head after the last commit, in its own small file.

If the write-ahead log is damaged, SQLite reads it up to the damage, and ignores every later commit without an error.
The witness shows such a loss: it is written after each commit, with the head of that commit. So a database that is
older than its witness has lost commits. A database may be newer than its witness, since the witness is synced only at
each take-over: after a power failure the last writes of the witness may be missing.

The file has two slots for each journal, which are written in turn. Each slot has a checksum and is on its own block. A
torn write damages one slot, and the other slot is then one commit behind. A slot is a line of text, which ``cat``
shows.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from milepost_backends.contract import Head
from milepost_backends.disk.filesystem import PRIVATE_FILE, sync_directory

GONE: Final = "is gone"
DAMAGED: Final = "is damaged"
_BLOCK: Final = 4096
_SLOTS: Final = 2
_FOR_WRITING: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_LINE: Final = re.compile(
    rb"(milepost-witness-1 (\S+) term=(\d+) revision=(\d+) lineage=(\S+) digest=(\S+)) check=([0-9a-f]{32})\n *\Z"
)


class Testimony(NamedTuple):
    """The newest valid head of a journal in a witness file, and in words what is wrong with the file.

    The head is None if the file has none, and the fault is None if the file is in order.
    """

    head: Head | None
    trouble: str | None


class FileWitness:
    """The witness file at ``path``. Only one thread may use this object.

    Another process may write the file once it has taken a journal over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = os.fsencode(path)
        self._slots: dict[str, int] = {}
        self._names: dict[str, str] = {}

    def ask(self, journal: str) -> Testimony:
        """Return the newest valid head of ``journal`` in the file, and what is wrong with the file. Raises OSError."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            self._slots.clear()
            return Testimony(None, GONE)
        heads = {slot: head for slot, name, head in _lines(content) if name == _named(journal)}
        if not heads:
            self._slots.pop(journal, None)
            whole = len(list(_lines(content))) * _BLOCK == len(content)
            return Testimony(None, None if whole and content else DAMAGED)
        newest = max(heads, key=lambda slot: (heads[slot].term, heads[slot].revision))
        self._slots[journal] = newest
        trouble = None if newest ^ 1 in heads else DAMAGED
        return Testimony(replace(heads[newest], journal=journal), trouble)

    def begin(self, head: Head) -> None:
        """Write the head of a new term into both slots of its journal, and sync them. Raises OSError.

        Call `ask` before, which finds the slots; a journal without slots gets new ones.
        """
        descriptor = os.open(self.path, _FOR_WRITING, PRIVATE_FILE)
        try:
            if head.journal not in self._slots:
                pairs = -(-os.fstat(descriptor).st_size // (_BLOCK * _SLOTS))
                self._slots[head.journal] = pairs * _SLOTS
            for _ in range(_SLOTS):
                self._write(descriptor, head)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(self.path.parent)

    def note(self, head: Head) -> None:
        """Write a committed head into one of the two slots of its journal, in turn, without a sync. Raises OSError.

        If `begin` failed, the journal has no slots yet, and this call makes them.
        """
        if head.journal not in self._slots:
            self.begin(head)
            return
        descriptor = os.open(self._at, _FOR_WRITING, PRIVATE_FILE)
        try:
            self._write(descriptor, head)
        finally:
            os.close(descriptor)

    def _write(self, descriptor: int, head: Head) -> None:
        slot = self._slots[head.journal] ^ 1
        line = self._line(head)
        if os.pwrite(descriptor, line.ljust(_BLOCK), slot * _BLOCK) < _BLOCK:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._slots[head.journal] = slot

    def _line(self, head: Head) -> bytes:
        named = self._names.get(head.journal)
        if named is None:
            named = self._names[head.journal] = _named(head.journal)
        text = (
            f"milepost-witness-1 {named} term={head.term} revision={head.revision} lineage={head.lineage}"
            f" digest={head.digest}"
        ).encode()
        return text + b" check=" + hashlib.blake2b(text, digest_size=16).hexdigest().encode() + b"\n"


def _named(journal: str) -> str:
    """Return the journal's name as the witness file has it: a hash if the name contains blanks or is very long."""
    return journal if _PLAIN.match(journal) else "#" + hashlib.blake2b(journal.encode(), digest_size=16).hexdigest()


def _lines(content: bytes) -> Iterator[tuple[int, str, Head]]:
    """Yield the slots in the witness file ``content`` whose checksum matches.

    Each has its number, the journal's name as in the file (see `_named`), and the head.
    """
    for slot in range(len(content) // _BLOCK):
        match = _LINE.match(content[slot * _BLOCK : (slot + 1) * _BLOCK])
        if match is None or hashlib.blake2b(match[1], digest_size=16).hexdigest().encode() != match[7]:
            continue
        name, term, revision, lineage, digest = (group.decode() for group in match.groups()[1:6])
        yield slot, name, Head(name, int(term), int(revision), lineage, digest)

"""Reads a backup: first verifies that it is complete and unchanged, then returns its bytes straight from the file."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from milepost.cli.backup.format import COUNTS, END, FORMAT, HEAD, VERSION, BadBackup, StoreRecord, store_of
from milepost.cli.backup.writing import counts_line, member_line

_CHUNK = 256 * 1024
_MOST_JSON = 64 * 1024


@dataclass(frozen=True)
class Backup:
    """A backup that was read completely and verified."""

    file: BinaryIO
    counts: dict[str, Any]
    created: str
    manifests: tuple[str, ...]
    places: dict[str, tuple[int, int]] = field(repr=False)

    def stores(self) -> Iterator[StoreRecord]:
        """Yield one store after the other. Raises `BadBackup`."""
        for name in self.manifests:
            store = store_of(io.BufferedReader(self.slice(name), _CHUNK))
            members = {handle.member for handle in store.handles} | {file.member for file in store.files}
            if not members - {None} <= self.places.keys():
                raise BadBackup(f"the list of store {store.name!r} names bytes that are not there")
            yield store

    def slice(self, member: str) -> Slice:
        """Return the bytes of a member, as a file that can be read again."""
        return Slice(self.file, *self.places[member])


class Slice(io.RawIOBase):
    """A part of a file, as a file object; others may read elsewhere in the file between two reads, but not during
    one.
    """

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file = file
        self._start = start
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        """Return True: the slice can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: the slice can be read again."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into the buffer."""
        self._file.seek(self._start + self._at)
        data = self._file.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@contextmanager
def opened(path: Path, standard: BinaryIO, counted: Callable[[int], None]) -> Iterator[Backup]:
    """Open and verify the backup at a path; ``-`` is ``standard``, which is copied into a temporary file first.

    Raises `BadBackup`, OSError.
    """
    if str(path) != "-":
        with path.open("rb") as file:
            yield checked(file, counted)
        return
    with tempfile.TemporaryFile() as spooled:
        shutil.copyfileobj(standard, spooled, _CHUNK)
        spooled.seek(0)
        yield checked(cast(BinaryIO, spooled), counted)


def checked(file: BinaryIO, counted: Callable[[int], None]) -> Backup:
    """Read a backup completely, and compare each of its bytes with the digest at its end. Raises `BadBackup`."""
    total, members, documents = hashlib.sha256(), 0, {}
    places: dict[str, tuple[int, int]] = {}
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                tar.members = []  # type: ignore[attr-defined]  # it would remember each of them
                first = not places
                # only regular files: no links, no holes
                content = tar.extractfile(member) if member.type == tarfile.REGTYPE else None
                if content is None or member.name in places or END in documents or first != (member.name == HEAD):
                    raise BadBackup(f"this is no backup of Milepost, or altered: {member.name!r} does not belong there")
                digest, kept = hashlib.sha256(), b""
                while chunk := content.read(_CHUNK):
                    digest.update(chunk)
                    counted(len(chunk))
                    kept = chunk if member.name in (HEAD, END) else b""
                places[member.name] = member.offset_data, member.size
                if member.name in (HEAD, END):
                    documents[member.name] = json.loads(kept[:_MOST_JSON])
                if member.name == HEAD:
                    _check_head(documents[HEAD])
                if member.name != END:
                    total.update(member_line(member.name, member.size, digest.hexdigest()))
                    members += 1
            _check_rest(file, tar.offset)
    except (tarfile.TarError, ValueError, EOFError, RecursionError) as error:
        raise BadBackup(f"this is no backup, or it is cut short or altered: {error}") from error
    if HEAD not in documents:
        raise BadBackup("this is no backup of Milepost")
    if END not in documents:
        raise BadBackup("the backup is cut short: its end is missing")
    end = documents[END]
    if not isinstance(end, dict) or not all(isinstance(end.get(name), int) for name in COUNTS):
        raise BadBackup("the backup was altered: its end is not as this release writes it")
    counts = {name: int(end[name]) for name in COUNTS}
    total.update(counts_line(counts))
    if (end.get("members"), end.get("digest")) != (members, total.hexdigest()):
        raise BadBackup("the backup was altered: its bytes do not have the digest at its end")
    manifests = tuple(name for name in places if name.endswith("/manifest.jsonl"))
    return Backup(file, counts, str(documents[HEAD].get("created")), manifests, places)


def _check_rest(file: BinaryIO, place: int) -> None:
    """Refuse bytes after the end, such as a second backup, which would be ignored otherwise."""
    file.seek(place)
    while chunk := file.read(_CHUNK):
        if chunk.strip(b"\0"):
            raise BadBackup("the backup was altered: there is more behind its end")


def _check_head(document: Any) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadBackup("this is no backup of Milepost")
    if document.get("version") != VERSION:
        raise BadBackup(f"the backup is of version {document.get('version')}, and this release reads {VERSION}")

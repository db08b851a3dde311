"""Writes and reads the tar file of a backup.

`ArchiveWriter` writes it to any stream, in bounded memory. `opened` verifies that a backup is complete and unchanged
before its bytes are used.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO, cast

import milepost
from milepost.cli.backup.format import (
    COUNTS,
    END,
    FORMAT,
    HEAD,
    VERSION,
    BadBackup,
    FileRecord,
    HandleRecord,
    StoreRecord,
    history_lines,
    history_of,
    manifest_lines,
    store_of,
)
from milepost.cli.errors import is_damage, is_outdated
from milepost.errors import MilepostError

_CHUNK = 256 * 1024
_MOST_JSON = 64 * 1024
_SPOOLED = 8 * 1024 * 1024
_ZEROS = bytes(64 * 1024)
_MANIFEST = "manifest.jsonl"
_HISTORY = "history.jsonl"


class ArchiveWriter:
    """Writes a backup to the stream ``out``. The backup is complete once `end` has written its last member."""

    def __init__(self, out: BinaryIO) -> None:
        forward = cast("io.BufferedWriter", _Forward(out))
        self._tar = tarfile.open(fileobj=forward, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by `end`
        self._digest = hashlib.sha256()
        self._members = 0
        self._stores = 0
        self._data = 0
        self._counts = dict.fromkeys(COUNTS, 0)
        created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._add_json(HEAD, {"format": FORMAT, "version": VERSION, "created": created, "by": milepost.__version__})

    def begin_store(self) -> None:
        """Begin the part of one store: the members of the tar that follow are the bytes of its states and files."""
        self._stores += 1
        self._data = 0

    def add_data(self, size: int, chunks: Iterable[bytes]) -> tuple[str, str, str | None]:
        """Write the bytes of a state or file as a member of the tar. Return the member's name, its SHA-256, and the
        failure in words, or None.

        If reading ``chunks`` fails, the member is filled up with zeros to ``size``, and the failure says that its bytes
        are not those of the state or file.
        """
        self._data += 1
        name = f"stores/{self._stores:05}/data/{self._data:08}"
        content = _Content(size, chunks)
        self._add(name, size, content)
        return name, content.sha256, content.failure

    def end_store(self, store: StoreRecord) -> None:
        """Write the history of the store, if it has one, and its manifest, which describes the members that were
        written since `begin_store`.
        """
        if store.history:
            self._add_lines(_HISTORY, history_lines(store))
        self._add_lines(_MANIFEST, manifest_lines(store))
        files = [file for file in store.files if not file.directory]
        kept: list[HandleRecord | FileRecord] = [*store.handles, *files]
        self._counts["stores"] += 1
        self._counts["handles"] += len(store.handles)
        self._counts["files"] += len(files)
        self._counts["bytes"] += sum(record.size for record in kept if record.damage is None)
        self._counts["damaged"] += sum(1 for _ in store.damages())

    def end(self) -> dict[str, int]:
        """Write the last member, with the digest of the whole backup; return the number of saved items of each kind in
        `COUNTS`.
        """
        self._digest.update(_counts_line(self._counts))
        digest = {"members": self._members, "digest": self._digest.hexdigest()}
        self._add_json(END, {**self._counts, **digest})
        self._tar.close()
        return dict(self._counts)

    def _add_lines(self, name: str, lines: Iterable[bytes]) -> None:
        with tempfile.SpooledTemporaryFile(_SPOOLED) as spooled:
            for line in lines:
                spooled.write(line)
            size = spooled.tell()
            spooled.seek(0)
            content = _Content(size, iter(lambda: spooled.read(len(_ZEROS)), b""))
            self._add(f"stores/{self._stores:05}/{name}", size, content)

    def _add_json(self, name: str, document: dict[str, Any]) -> None:
        data = json.dumps(document, indent=1).encode()
        self._add(name, len(data), _Content(len(data), [data]))

    def _add(self, name: str, size: int, content: _Content) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = size, 0o600, int(time.time())
        self._tar.addfile(member, cast("io.BufferedReader", content))
        self._members += 1
        self._digest.update(_member_line(name, size, content.sha256))


def _member_line(name: str, size: int, sha256: str) -> bytes:
    """Return the line for one member of the tar. The digest of a backup is that of the lines of all members, and of
    `_counts_line`.
    """
    return f"{name} {size} {sha256}\n".encode()


def _counts_line(counts: Mapping[str, int]) -> bytes:
    """Return the line with the numbers of items. The digest of a backup is that of the lines of all members
    (`_member_line`), and of this line.
    """
    return " ".join(f"{name}={counts[name]}" for name in COUNTS).encode() + b"\n"


class _Forward:
    """A file object that lets tarfile write to a stream that cannot seek.

    Tarfile's own stream mode is not used, because it writes to the stream even after a backup was abandoned.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, data: bytes) -> int:
        return self._out.write(data)

    def tell(self) -> int:
        return 0


class _Content:
    """A file object from which tarfile reads exactly ``size`` bytes: those of ``chunks``, and zeros if the chunks end
    early.
    """

    def __init__(self, size: int, chunks: Iterable[bytes]) -> None:
        self.failure: str | None = None
        self._left = size
        self._chunks: Iterator[bytes] = iter(chunks)
        self._held = b""
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def read(self, size: int) -> bytes:
        size = min(size, self._left)
        while len(self._held) < size and self.failure is None:
            try:
                self._held += next(self._chunks)
            except StopIteration:
                self.failure = "its bytes ended early"
            except MilepostError as error:
                self._fail(error)
        data, self._held = self._held[:size], self._held[size:]
        data += bytes(size - len(data))
        self._left -= size
        if not self._left and self.failure is None:
            self._end()
        self._hash.update(data)
        return data

    def _end(self) -> None:
        """Ask for one more chunk after all bytes, since a source reports a wrong digest only at its end."""
        try:
            if self._held or next(self._chunks, None):
                self.failure = "it has more bytes than its record says"
        except MilepostError as error:
            self._fail(error)

    def _fail(self, error: MilepostError) -> None:
        """Record ``error`` as the failure of this member if it says that the stored bytes are damaged, or were replaced
        or removed during the backup. Raise any other error, which ends the backup.
        """
        if not (is_damage(error) or is_outdated(error)):
            raise error
        self.failure = str(error)


@dataclass(frozen=True)
class Backup:
    """A backup that was read completely and verified. ``places`` has the offset and size of each member's bytes in the
    tar.
    """

    file: BinaryIO
    counts: dict[str, Any]
    created: str
    manifests: tuple[str, ...]
    places: dict[str, tuple[int, int]] = field(repr=False)

    def stores(self) -> Iterator[StoreRecord]:
        """Yield what the manifest of each store describes, with the history of the job. Raises `BadBackup`."""
        for name in self.manifests:
            store = store_of(io.BufferedReader(self.slice(name), _CHUNK))
            members = {handle.member for handle in store.handles} | {file.member for file in store.files}
            if not members - {None} <= self.places.keys():
                raise BadBackup(f"the list of store {store.name!r} names bytes that are not there")
            history = f"{name.removesuffix(_MANIFEST)}{_HISTORY}"
            if history in self.places:
                store.history = history_of(io.BufferedReader(self.slice(history), _CHUNK))
            yield store

    @property
    def made(self) -> datetime:
        """When the backup was made. Raises `BadBackup`."""
        try:
            made = datetime.fromisoformat(self.created)
        except ValueError as error:
            raise BadBackup(f"the backup does not say when it was made: {error}") from error
        return made if made.tzinfo is not None else made.replace(tzinfo=timezone.utc)

    def slice(self, member: str) -> Slice:
        """Return the bytes of the tar's member ``member``, as a file object that can seek."""
        return Slice(self.file, *self.places[member])


class Slice(io.RawIOBase):
    """A part of a file, as a file object that can seek.

    Several slices of one file may be read in turn, but not at the same time from several threads.
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
        """Move to a position within the slice, and return it."""
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def tell(self) -> int:
        """Return the position of the next read within the slice."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into ``buffer``; return their number, 0 at the end of the slice."""
        self._file.seek(self._start + self._at)
        data = self._file.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@contextmanager
def opened(path: Path, standard: BinaryIO, counted: Callable[[int], None]) -> Iterator[Backup]:
    """Open and verify the backup at ``path``; if ``path`` is ``-``, that on standard input (``standard``), which is
    first copied into a temporary file.

    ``counted`` is called with the number of bytes of each chunk that was read. Raises `BadBackup`, OSError.
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
    """Read a backup completely, and verify that all of its bytes have the digest in its last member.

    ``counted`` is called with the number of bytes of each chunk that was read. Raises `BadBackup` if it is not a
    backup, or is incomplete or altered.
    """
    total, members, documents = hashlib.sha256(), 0, {}
    places: dict[str, tuple[int, int]] = {}
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                tar.members = []  # type: ignore[attr-defined]  # forget earlier members, to save memory
                first = not places
                # a backup has only regular files, no links or sparse files
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
                    total.update(_member_line(member.name, member.size, digest.hexdigest()))
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
    total.update(_counts_line(counts))
    if (end.get("members"), end.get("digest")) != (members, total.hexdigest()):
        raise BadBackup("the backup was altered: its bytes do not have the digest at its end")
    manifests = tuple(name for name in places if name.endswith(f"/{_MANIFEST}"))
    return Backup(file, counts, str(documents[HEAD].get("created")), manifests, places)


def _check_rest(file: BinaryIO, place: int) -> None:
    """Raise `BadBackup` if anything but zeros follows the end of the tar at offset ``place``, for example a second
    backup.
    """
    file.seek(place)
    while chunk := file.read(_CHUNK):
        if chunk.strip(b"\0"):
            raise BadBackup("the backup was altered: there is more behind its end")


def _check_head(document: Any) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadBackup("this is no backup of Milepost")
    if document.get("version") != VERSION:
        raise BadBackup(f"the backup is of version {document.get('version')}, and this release reads {VERSION}")

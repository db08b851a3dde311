"""Writes a backup to any stream, member by member, in bounded memory."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, BinaryIO, cast

import milepost
from milepost.cli.backup.format import (
    COUNTS,
    END,
    FORMAT,
    HEAD,
    VERSION,
    FileRecord,
    HandleRecord,
    StoreRecord,
    manifest_lines,
)
from milepost.cli.errors import is_damage, is_outdated
from milepost.errors import MilepostError

_SPOOLED = 8 * 1024 * 1024
_ZEROS = bytes(64 * 1024)


class ArchiveWriter:
    """A backup that is being written to ``out``. It counts as whole only once `end` has written its last member."""

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
        """Begin with the bytes of the next store."""
        self._stores += 1
        self._data = 0

    def add_data(self, size: int, chunks: Iterable[bytes]) -> tuple[str, str, str | None]:
        """Write the bytes of a state or file; return the member's name, its SHA-256, and the reason why it is not
        whole.

        If reading breaks off, the member is filled up with zeros, and its record says that these are not the bytes.
        """
        self._data += 1
        name = f"stores/{self._stores:05}/data/{self._data:08}"
        content = _Content(size, chunks)
        self._add(name, size, content)
        return name, content.sha256, content.failure

    def end_store(self, store: StoreRecord) -> None:
        """Write the description of the store's bytes. Its members are those since `begin_store`."""
        with tempfile.SpooledTemporaryFile(_SPOOLED) as spooled:
            for line in manifest_lines(store):
                spooled.write(line)
            size = spooled.tell()
            spooled.seek(0)
            name = f"stores/{self._stores:05}/manifest.jsonl"
            self._add(name, size, _Content(size, iter(lambda: spooled.read(len(_ZEROS)), b"")))
        files = [file for file in store.files if not file.directory]
        kept: list[HandleRecord | FileRecord] = [*store.handles, *files]
        self._counts["stores"] += 1
        self._counts["handles"] += len(store.handles)
        self._counts["files"] += len(files)
        self._counts["bytes"] += sum(record.size for record in kept if record.damage is None)
        self._counts["damaged"] += sum(1 for _ in store.damages())

    def end(self) -> dict[str, int]:
        """Write the last member; return the number of items."""
        self._digest.update(counts_line(self._counts))
        digest = {"members": self._members, "digest": self._digest.hexdigest()}
        self._add_json(END, {**self._counts, **digest})
        self._tar.close()
        return dict(self._counts)

    def _add_json(self, name: str, document: dict[str, Any]) -> None:
        data = json.dumps(document, indent=1).encode()
        self._add(name, len(data), _Content(len(data), [data]))

    def _add(self, name: str, size: int, content: _Content) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = size, 0o600, int(time.time())
        self._tar.addfile(member, cast("io.BufferedReader", content))
        self._members += 1
        self._digest.update(member_line(name, size, content.sha256))


def member_line(name: str, size: int, sha256: str) -> bytes:
    """Return a member's line in the digest over all members."""
    return f"{name} {size} {sha256}\n".encode()


def counts_line(counts: Mapping[str, int]) -> bytes:
    """Return the last line in the digest over all members."""
    return " ".join(f"{name}={counts[name]}" for name in COUNTS).encode() + b"\n"


class _Forward:
    """A file object for tarfile on a stream that cannot seek. Tarfile's own streams write once more when they are
    abandoned.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, data: bytes) -> int:
        return self._out.write(data)

    def tell(self) -> int:
        return 0


class _Content:
    """A file of exactly ``size`` bytes, for tarfile: the bytes of the chunks, and zeros from where these break off."""

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
        """Ask for one more chunk after all bytes: only then does a source report that they were wrong."""
        try:
            if self._held or next(self._chunks, None):
                self.failure = "it has more bytes than its record says"
        except MilepostError as error:
            self._fail(error)

    def _fail(self, error: MilepostError) -> None:
        """Note bytes that are damaged or gone; any other error ends the backup attempt, which is then repeated."""
        if not (is_damage(error) or is_outdated(error)):
            raise error
        self.failure = str(error)

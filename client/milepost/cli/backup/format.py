"""The format of a backup: a tar whose members are bytes, and lists in JSON that describe the bytes.

The members come in this order, so that a backup can be written, and checked, in one pass:

    milepost-backup.json              the format and its version
    stores/00001/data/00000001        the bytes of a state or a file; a file in several snapshots is stored once
    stores/00001/history.jsonl        a line for each entry of the job's history, if there are any
    stores/00001/manifest.jsonl       a line for each record of the store, after all its bytes
    end.json                          the number of items, and a digest over name, size and SHA-256 of each member
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from milepost.core.calls.file_answers import history_entry
from milepost.core.calls.members import text, text_or_none
from milepost.core.saved_history import document_of
from milepost.job_types import HistoryEntry

FORMAT: Final = "milepost-backup"
VERSION: Final = 1
HEAD: Final = "milepost-backup.json"
END: Final = "end.json"
COUNTS: Final = ("stores", "handles", "files", "bytes", "damaged")
"""The kinds of items that the last member of a backup counts."""
SAVEPOINT_PREFIX: Final = "milepost-backup-"
"""The prefix of the savepoints that keep a snapshot during a backup. The backup does not contain them."""


DAMAGED: Final = "damaged"
"""The kind of an entry of a history that stands for entries that could not be read."""


class BadBackup(Exception):
    """The file is not a backup, or the backup was truncated or altered."""


@dataclass(frozen=True)
class HandleRecord:
    """A handle at the time of the backup.

    ``member`` is the tar's member with the bytes of the state. It is None if they could not be read; ``damage`` then
    says why.
    """

    name: str
    size: int = 0
    sha256: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    created: str = ""
    updated: str = ""
    epoch: int | None = None
    member: str | None = None
    damage: str | None = None


@dataclass(frozen=True)
class SnapshotRecord:
    """A snapshot of a job's files at ``revision``, in a backup. ``savepoint`` is the name of the savepoint that keeps
    the snapshot; None if there is none.
    """

    revision: int
    directory: str
    batch: int
    savepoint: str | None = None

    @property
    def commit(self) -> str:
        """The path of the file by which Spark commits the batch of this snapshot."""
        return f"{self.directory}/commits/{self.batch}".lstrip("/")


@dataclass(frozen=True)
class FileRecord:
    """A file or directory of a job, in a backup. ``at`` has the revisions of the snapshots that contain it.

    ``member`` is the tar's member with its bytes. It is None for a directory, and if the bytes could not be read;
    ``damage`` then says why.
    """

    path: str
    at: tuple[int, ...]
    directory: bool = False
    size: int = 0
    sha256: str = ""
    member: str | None = None
    damage: str | None = None


@dataclass
class StoreRecord:
    """A store in a backup, with the records of its handles, snapshots and files. If nothing of the store could be
    saved, ``damage`` says why.

    ``history`` has the entries of the job's history, the oldest first. Those of the kind ``damaged`` stand for entries
    that could not be read.
    """

    name: str
    epoch: int = 0
    damage: str | None = None
    handles: list[HandleRecord] = field(default_factory=list)
    snapshots: list[SnapshotRecord] = field(default_factory=list)
    files: list[FileRecord] = field(default_factory=list)
    history: list[HistoryEntry] = field(default_factory=list)

    def damages(self) -> Iterator[str]:
        """Yield a line for each item that could not be saved."""
        if self.damage is not None:
            yield f"store {self.name}: {self.damage}"
        yield from (f"handle {self.name}/{each.name}: {each.damage}" for each in self.handles if each.damage)
        yield from (f"file {each.path} of {self.name}: {each.damage}" for each in self.files if each.damage)
        yield from (
            f"history of {self.name}: {f'{each.page}: ' if each.page else ''}{each.reason}"
            for each in self.history
            if each.kind == DAMAGED
        )

    def lost(self) -> Counter[str]:
        """Return the number of items of each kind that could not be saved, by the names in `COUNTS`."""
        return Counter(
            stores=int(self.damage is not None),
            handles=sum(1 for each in self.handles if each.damage),
            files=sum(1 for each in self.files if each.damage),
        )


def manifest_lines(store: StoreRecord) -> Iterator[bytes]:
    """Yield the lines of a store's manifest, the member of the tar that describes the store: one JSON document for each
    record.
    """
    yield _line("store", {"name": store.name, "epoch": store.epoch, "damage": store.damage})
    for kind, records in (("handle", store.handles), ("snapshot", store.snapshots), ("file", store.files)):
        for record in records:
            fields = asdict(record)
            if kind == "snapshot":
                # the key has the name that savepoints had in the first backups
                fields["pin"] = fields.pop("savepoint")
            yield _line(kind, fields)


def history_lines(store: StoreRecord) -> Iterator[bytes]:
    """Yield the lines of a store's history, a member of the tar: one JSON document for each entry."""
    for entry in store.history:
        document = document_of(entry)
        yield _line(document.pop("kind"), document)


def history_of(lines: Iterable[bytes]) -> list[HistoryEntry]:
    """Return the history with these lines. Raises `BadBackup` if they are not those of a history. Members that a later
    release has added are ignored.
    """
    try:
        return [_entry_of(json.loads(line)) for line in lines]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise BadBackup(f"a history is not as this release writes it: {error}") from error


def _entry_of(document: Mapping[str, Any]) -> HistoryEntry:
    if document["kind"] != DAMAGED:
        return history_entry(document)
    return HistoryEntry(DAMAGED, page=text_or_none(document, "page"), reason=text(document, "reason"))


def store_of(lines: Iterable[bytes]) -> StoreRecord:
    """Return the store whose manifest has these lines. Raises `BadBackup` if they are not those of a manifest."""
    found: StoreRecord | None = None
    try:
        for line in lines:
            fields = json.loads(line)
            kind = fields.pop("kind")
            if kind == "store":
                found = StoreRecord(**fields)
            elif found is None:
                raise ValueError("a record before its store")
            elif kind == "handle":
                found.handles.append(HandleRecord(**fields))
            elif kind == "snapshot":
                found.snapshots.append(SnapshotRecord(savepoint=fields.pop("pin", None), **fields))
            elif kind == "file":
                found.files.append(FileRecord(**{**fields, "at": tuple(fields["at"])}))
            else:
                raise ValueError(f"a record of the unknown kind {kind!r}")
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise BadBackup(f"a list of records is not as this release writes it: {error}") from error
    if found is None:
        raise BadBackup("a list of records is empty")
    return found


def _line(kind: str, fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"kind": kind, **fields}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"

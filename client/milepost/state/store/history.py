"""Reads the history of a state store from its files: its commits, their predecessors, and their changes."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from milepost.state.errors import Diverged, FileMissing, StateDamaged, VersionNotFound
from milepost.state.store.contract.values import Change, ChangeKind, StateStoreId
from milepost.state.store.files.contract import Created, FileInfo, StateFiles, create_once
from milepost.state.store.format.files import OpenedFile, Written, open_file
from milepost.state.store.format.heads import Commit, DeltaHead, SnapshotHead
from milepost.state.store.format.names import Kind, StateFileName, parse_name
from milepost.state.store.rows import PREFIX_BYTES, Op, unframed

_HEADS_KEPT = 512

_KINDS = {Op.PUT: ChangeKind.PUT, Op.REMOVE: ChangeKind.REMOVE, Op.APPEND: ChangeKind.APPEND}


@dataclass(frozen=True)
class Listing:
    """The files of a state store, by kind, at the time when they were listed; files whose names do not fit are left
    out.
    """

    infos: dict[StateFileName, FileInfo] = field(default_factory=dict)
    commits: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    snapshots: dict[Commit, list[StateFileName]] = field(default_factory=lambda: defaultdict(list))
    pins: dict[str, list[StateFileName]] = field(default_factory=lambda: defaultdict(list))

    def of_kind(self, kind: Kind) -> list[StateFileName]:
        """Return the names of the files of one kind."""
        return [name for name in self.infos if name.kind is kind]

    def lacks(self, snapshot: SnapshotHead) -> str | None:
        """Return the name of a file that a snapshot needs and that is missing; None if no file is missing.

        A file may be missing because another process made a newer snapshot, and removed older files, while this
        snapshot was being written.
        """
        parts = (part.name for run in snapshot.runs for part in run.parts)
        return next((part for part in parts if parse_name(part) not in self.infos), None)


class History:
    """The commits of one state store, as recorded in its files."""

    def __init__(self, files: StateFiles, store: StateStoreId) -> None:
        self.files = files
        self.store = store
        self._heads: dict[Commit, DeltaHead] = {}
        self._lock = threading.Lock()

    def path(self, name: StateFileName) -> str:
        """Return the path of a file of this state store in its `StateFiles`."""
        return f"{self.store.directory}/{name}"

    def list(self) -> Listing:
        """List the existing files of the state store."""
        listing = Listing()
        for info in self.files.list(self.store.directory):
            name = parse_name(info.name.rpartition("/")[2])
            if name is None:
                continue
            listing.infos[name] = info
            if name.kind is Kind.DELTA:
                listing.commits[name.version].append(name.id)
            elif name.kind is Kind.SNAPSHOT:
                listing.snapshots[name.version, name.id].append(name)
            elif name.kind is Kind.PIN:
                listing.pins[name.extra].append(name)
        return listing

    def find(self, listing: Listing, version: int, id: str | None) -> Commit:
        """Return the commit with this version and ``id``; with None as id, the only commit of the version. Raises
        `VersionNotFound` if there is no such commit, and `Diverged` if there are several.
        """
        ids = listing.commits.get(version, [])
        if id is None and len(ids) > 1:
            raise Diverged(
                f"version {version} of {self.store.directory} was committed {len(ids)} times, as "
                f"{', '.join(sorted(ids))}, and without an id it is not known which of them counts",
                version,
                sorted(ids),
            )
        if not ids or id not in (None, *ids):
            named = f" with the id {id}" if id else ""
            raise VersionNotFound(f"there is no version {version}{named} of {self.store.directory}")
        return version, id or ids[0]

    def create(self, name: StateFileName, file: Written) -> int:
        """Create a file of the state store, and return its size. If the file exists already with the same content, the
        call succeeds as well.

        Raises `WriteUnknown` if it is unknown whether the file exists, `StateDamaged` if the name has other content.
        """
        path = self.path(name)
        if create_once(self.files, path, file.content) is Created.EXISTS:
            raise StateDamaged(path, "it was being created, and is there with other bytes")
        return len(file.content)

    def open(self, name: StateFileName) -> OpenedFile:
        """Open a file of the state store. Raises `FileMissing`, `StateDamaged`."""
        return open_file(self.files, self.store, name)

    def open_delta(self, commit: Commit) -> tuple[DeltaHead, OpenedFile]:
        """Open the file of a commit, and return its header and the file. Raises `VersionNotFound`, `StateDamaged`."""
        try:
            opened = self.open(StateFileName(Kind.DELTA, *commit))
        except FileMissing as error:
            raise VersionNotFound(
                f"version {commit[0]} of {self.store.directory} with the id {commit[1]} is not there, or no longer"
            ) from error
        if not isinstance(opened.head, DeltaHead):
            raise StateDamaged(opened.path, "it is no commit")
        self.remember(commit, opened.head)
        return opened.head, opened

    def delta(self, commit: Commit) -> DeltaHead:
        """Return the header of a commit's file, from this object's cache or from the file. Raises the errors of
        `open_delta`.
        """
        return self._heads.get(commit) or self.open_delta(commit)[0]

    def remember(self, commit: Commit, head: DeltaHead) -> None:
        """Put the header of a commit's file into the cache that `delta` uses."""
        with self._lock:
            self._heads[commit] = head
            while len(self._heads) > _HEADS_KEPT:
                self._heads.pop(next(iter(self._heads)))

    def snapshot(self, name: StateFileName) -> SnapshotHead:
        """Read the header of a snapshot's file, which lists the runs that together are the state. Raises `FileMissing`,
        `StateDamaged`.
        """
        opened = self.open(name)
        if not isinstance(opened.head, SnapshotHead) or opened.head.id != name.id:
            raise StateDamaged(opened.path, f"it is no snapshot of the commit {name.id}")
        return opened.head

    def lineage(self, commit: Commit) -> Iterator[Commit]:
        """Iterate over a commit and its predecessors, newest first, down to version 1. The iteration raises
        `VersionNotFound` if it must read the file of a commit that is missing.
        """
        yield commit
        while commit[0] > 1:
            older = self.delta(commit).lineage
            if not older:
                raise StateDamaged(self.path(StateFileName(Kind.DELTA, *commit)), "it does not say what was before it")
            yield from older
            commit = older[-1]


def changes_of(history: History, commits: Sequence[Commit], family: str | None) -> Iterator[Change]:
    """Iterate over the changes of these commits, in the column family ``family`` or, with None, in all. Raises
    `StateDamaged`, `VersionNotFound`.
    """
    for commit in commits:
        head, opened = history.open_delta(commit)
        names = {one.number: (name, one.multiple) for name, one in head.families.by_name.items()}
        for key, op, value in opened.rows():
            name, multiple = names[int.from_bytes(key[:PREFIX_BYTES], "big")]
            if family in (None, name):
                values = () if op == Op.REMOVE else tuple(unframed(value)) if multiple else (value,)
                yield Change(commit[0], name, _KINDS[Op(op)], key[PREFIX_BYTES:], values)

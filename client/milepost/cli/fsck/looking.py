"""Examines all stores: listings, the bytes of states, the files of jobs, and the replicas' own reports. Each damage is
a `Finding`, which also has the possible repair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

import httpx

from milepost.cli.errors import is_damage, is_outdated
from milepost.cli.progress import Bar
from milepost.client import Client
from milepost.drivers.connections import Connections, Verify
from milepost.errors import Damaged, NotExist, StateTruncated, VersionMismatch
from milepost.integrity import described, newest_whole
from milepost.store import StateHandleStore
from milepost.types import CorruptHandle, Handle, StoreSummary, Verification

_SMALL = 64 * 1024
"""A state up to this size is read completely, since that costs no more than reading its beginning."""

_WHAT_TO_DO: Final = "docs/damage.md#what-to-do"
_FILES: Final = "docs/damage.md#a-jobs-files"


class Examiner:
    """Looks for damage. ``deep`` reads all bytes; checking the files of a job takes at most ``within`` seconds."""

    def __init__(self, client: Client, bar: Bar, *, deep: bool, within: float) -> None:
        self._client = client
        self._bar = bar
        self._deep = deep
        self._within = within
        self.looked = Looked()

    def store(self, summary: StoreSummary) -> Iterator[Finding]:
        """Yield the damages of a store."""
        self.looked.stores += 1
        self._bar.name(summary.store)
        store = self._client.store(summary.store)
        try:
            store.current_epoch()
            for handle in store.look_through():
                self.looked.handles += 1
                finding = self.handle(store, handle)
                if finding is not None:
                    yield finding
        except Damaged as error:
            yield Finding(store.name, Kind.STORE, "", str(error))
            return
        yield from self.files(store)

    def handle(self, store: StateHandleStore, handle: Handle | CorruptHandle) -> Finding | None:
        """Return the damage of a handle; None if there is none."""
        if isinstance(handle, CorruptHandle):
            return Finding(store.name, Kind.RECORD, handle.name, handle.reason, Repair.REMOVE)
        if handle.removing:
            return None
        try:
            with store.open(handle.name, handle.version) as chunks:
                if self._deep or handle.size <= _SMALL:
                    for chunk in chunks:
                        self._bar.advance(len(chunk))
        except (NotExist, VersionMismatch):
            return None  # the handle was removed or replaced meanwhile
        except (Damaged, StateTruncated) as error:
            if is_outdated(error):
                return None
            if not is_damage(error):
                raise
            return Finding(store.name, Kind.STATE, handle.name, str(error))
        return None

    def files(self, store: StateHandleStore) -> Iterator[Finding]:
        """Yield the damages of the files of a job, now and in its kept snapshots."""
        try:
            found = store.files.verify(digests=self._deep, timeout=self._within)
        except Damaged as error:
            yield Finding(store.name, Kind.TREE, "", str(error), see=_FILES)
            return
        self.looked.files += found.files
        if not found.intact:
            revision = newest_of(found)
            repair = None if revision is None else Repair.ROLL_BACK
            yield Finding(store.name, Kind.FILES, "", described(found), repair, _FILES, revision)
        elif found.damaged_count:
            yield Finding(store.name, Kind.KEPT, "", described(found), see=_FILES)


def newest_of(found: Verification) -> int | None:
    """Return the revision of the newest snapshot or savepoint that is whole; None if none is."""
    snapshot = newest_whole([*found.kept.snapshots, *(savepoint.snapshot for savepoint in found.kept.savepoints)])
    return None if snapshot is None else snapshot.revision


def replicas(urls: Iterable[str], token: str | None, verify: Verify, timeout: float) -> Iterator[Finding]:
    """Yield the damaged records that the replicas at these addresses report. One that does not answer reports none.

    If the service uses tokens, the replicas report them only to a token that may read every store.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with Connections(verify).client(httpx.Client) as http:
        http.timeout = timeout
        for url in urls:
            try:
                lines = http.get(f"{url.rstrip('/')}/readyz?verbose", headers=headers).text.splitlines()
            except httpx.HTTPError:
                continue
            for line in lines:
                part, _, said = line.removeprefix("[+] ").removeprefix("[-] ").partition(": ")
                if part in ("records", "blobs") and ("damaged" in said or "corrupt" in said):
                    yield Finding("", Kind.SERVICE, f"{part} of {url}", said)


class Kind(str, Enum):
    """The kinds of damage."""

    SERVICE = "service"
    STORE = "record of a store"
    RECORD = "record of a handle"
    STATE = "state of a handle"
    TREE = "record of files"
    FILES = "files of now"
    KEPT = "files of before"


class Repair(str, Enum):
    """The repairs of ``--repair``."""

    REMOVE = "remove the handle"
    ROLL_BACK = "roll the files back"


@dataclass(frozen=True)
class Finding:
    """One damage. ``repair`` is None if only its owner can repair it: ``see`` says how.

    For files, ``revision`` is that of the newest snapshot or savepoint that is whole.
    """

    store: str
    kind: Kind
    name: str
    reason: str
    repair: Repair | None = None
    see: str = _WHAT_TO_DO
    revision: int | None = None

    @property
    def step(self) -> str:
        """The effect of the repair, as a sentence for the person who must agree to it."""
        if self.repair is Repair.REMOVE:
            return (
                f"remove the handle {self.name} of store {self.store}, whose record cannot be read: it can be put back "
                "no more then, and its bytes are deleted in time"
            )
        return (
            f"roll the files of {self.store} back to revision {self.revision}, the newest snapshot or savepoint that is"
            " whole: what came later is gone, and its batches are run again"
        )


@dataclass
class Looked:
    """The number of examined items."""

    stores: int = 0
    handles: int = 0
    files: int = 0

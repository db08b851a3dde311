"""The command `fsck`: it examines all stores for damage, and makes the repairs that are safe.

It examines listings, the bytes of states, the files of jobs, the replicas' own reports, and whether two cells have a
job. Each damage is a `Finding`, which also has the possible repair. A finding is checked again before its repair, since
it may have been repaired meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Annotated, Final

import httpx
import typer

from milepost.cli.acting import changing_several, led
from milepost.cli.errors import ExitCode, asking, exit_code, is_damage, is_outdated, line_about, say
from milepost.cli.files import Within
from milepost.cli.options import Options, Stores, shared
from milepost.cli.output import show_all
from milepost.cli.progress import Bar, NoProgress, Quiet, transfer
from milepost.cli.service import warn_of_unseen_stores
from milepost.client import Client
from milepost.drivers.connections import Connections, Verify
from milepost.errors import Damaged, JobElsewhere, MilepostError, NotExist, StateTruncated, VersionMismatch
from milepost.integrity import described, newest_whole
from milepost.restoring import require_safe, roll_back
from milepost.store import StateHandleStore
from milepost.types import CorruptHandle, Handle, StoreSummary, Verification

_SMALL = 64 * 1024
"""A state up to this size is read completely, since that costs no more than reading its beginning."""

_WHAT_TO_DO: Final = "docs/damage.md#what-to-do"
_FILES: Final = "docs/damage.md#a-jobs-files"
_CELLS: Final = "docs/cells.md#a-job-in-two-cells"

_NO_VERSION: Final = "damaged"
"""A version that no handle has. A conditional removal with it removes only a record that cannot be read, which has no
version to compare.
"""


@shared
def fsck(
    context: typer.Context,
    store: Stores = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read all bytes, and compare their digests.")] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Do what is safe about it: each step is said first, and asked for.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --repair: do not ask.")] = False,
    within: Within = 600.0,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
) -> None:
    """Check all stores for damage.

    The exit code is 1 if there is any, repaired or not. For damage that cannot be repaired here, the command names the
    page that says what to do.
    """
    if repair and not yes and not sys.stdin.isatty():
        raise typer.BadParameter("asks for each step on a terminal; without one, give --yes", param_hint="'--repair'")
    options: Options = context.obj
    with options.client(direct=False) as client:
        warn_of_unseen_stores(client, store)
        with transfer("fsck", None, quiet=quiet, no_progress=no_progress) as bar:
            examiner = Examiner(client, bar, deep=deep, within=within)
            found = list(replicas(client.addresses, options.token, options.verify(), options.timeout))
            failed: MilepostError | None = None
            cells, seen = client.by_cell(), dict[str, str]()
            for cell, one in cells.items():
                try:
                    for summary in one.stores():
                        if store and not any(fnmatchcase(summary.store, pattern) for pattern in store):
                            continue
                        other = seen.setdefault(summary.store, cell)
                        if other != cell:
                            found += in_two_cells(summary.store, {name: cells[name] for name in (other, cell)})
                            continue
                        found += examiner.store(summary)
                except MilepostError as error:
                    if not cell:
                        raise
                    typer.echo(f"cell {cell} is not looked at: {line_about(error)}", err=True)
                    failed = error
        show_all(context, found, ("store", "kind", "name", "reason", "repair", "see"))
        looked = examiner.looked
        if not quiet:
            counts = f"{looked.stores} stores, {looked.handles} handles and {looked.files} files"
            typer.echo(f"{counts} were looked at: {len(found) or 'no'} damages", err=True)
        if repair:
            _repair_all(context, client, found, yes=yes, deep=deep, within=within)
    if found:
        raise typer.Exit(ExitCode.REFUSED)
    if failed is not None:
        raise typer.Exit(exit_code(failed))


def _repair_all(
    context: typer.Context, client: Client, found: list[Finding], *, yes: bool, deep: bool, within: float
) -> None:
    for finding in found:
        if finding.repair is None:
            typer.echo(
                f"not repaired: {finding.kind.value} {finding.store} {finding.name}, see {finding.see}", err=True
            )
    repairable = [finding for finding in found if finding.repair is not None]
    if not repairable:
        return
    with changing_several(context, client) as opened:
        repairer = Repairer(opened, deep=deep, within=within)
        for finding in repairable:
            typer.echo(f"to {finding.step}", err=True)
            if not yes and not _is_wanted():
                continue
            try:
                typer.echo(f"{finding.name or 'the files'} of {finding.store} {repairer.repair(finding)}", err=True)
            except MilepostError as error:  # not raised, since other findings may still be repaired
                say(error)


def _is_wanted() -> bool:
    with asking():
        return typer.confirm("do it?", err=True)


class Repairer:
    """Makes the repairs that findings name, in stores that ``opened`` opens. ``deep`` and ``within`` are as in
    `Examiner`.
    """

    def __init__(self, opened: Callable[[str], StateHandleStore], *, deep: bool, within: float) -> None:
        self._opened = opened
        self._deep = deep
        self._within = within

    def repair(self, finding: Finding) -> str:
        """Make the repair that a finding names; return its result in words.

        Raises the errors of the writes, `NoSafeCheckpoint` if no driver could continue after a rollback, and
        `EpochHeld` while a driver leads: then nothing is repaired.
        """
        store = self._opened(finding.store)
        if finding.repair is Repair.REMOVE:
            return self._remove(store, finding.name)
        # checked before the campaign, so that a refused rollback does not raise the epoch
        require_safe(store, f"@{finding.revision}")
        with led(store, 0.0):
            return self._roll_back(store)

    def _remove(self, store: StateHandleStore, name: str) -> str:
        if store.current_epoch().epoch == 0:
            return self._removed(store, name)
        with led(store, 0.0):
            return self._removed(store, name)

    def _removed(self, store: StateHandleStore, name: str) -> str:
        try:
            if store.exists(name) is None:
                return "is gone already"
        except Damaged:
            try:
                store.release_and_try_remove(name, _NO_VERSION)
            except VersionMismatch:
                return "was added anew meanwhile, so it was left alone"
            return "is removed"
        return "can be read again, so it was left alone"

    def _roll_back(self, store: StateHandleStore) -> str:
        """Roll the files back to the newest snapshot or savepoint without damage; return the result in words.

        ``store`` must hold the epoch, so that no driver writes any more and the snapshot stays the newest.
        """
        found = store.files.verify(digests=self._deep, timeout=self._within)
        revision = newest_of(found)
        if found.intact:
            return "are whole by now, so they were left alone"
        if revision is None:
            return "have no whole snapshot any more, so they were left alone"
        before = roll_back(store, revision, f"@{revision}")
        return f"are those of revision {revision} again; what they were is kept as {before}"


class Examiner:
    """Looks for damage in stores. With ``deep`` it reads all bytes. A check of the files of one job takes at most
    ``within`` seconds.
    """

    def __init__(self, client: Client, bar: Bar, *, deep: bool, within: float) -> None:
        self._client = client
        self._bar = bar
        self._deep = deep
        self._within = within
        self.looked = Looked()

    def store(self, summary: StoreSummary) -> Iterator[Finding]:
        """Examine a store, its handles, and its files; yield what is damaged."""
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
        """Examine the record and the bytes of a handle. Return the damage; None if there is none."""
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
            return None  # a client has removed or replaced the handle since it was listed
        except (Damaged, StateTruncated) as error:
            if is_outdated(error):
                return None
            if not is_damage(error):
                raise
            return Finding(store.name, Kind.STATE, handle.name, str(error))
        return None

    def files(self, store: StateHandleStore) -> Iterator[Finding]:
        """Examine the files of a job, as they are now and in the kept snapshots; yield what is damaged."""
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


def in_two_cells(store: str, cells: Mapping[str, Client]) -> Iterator[Finding]:
    """Yield a finding if each of two cells, which listed a store one after the other, has it still: it was not moved
    meanwhile.
    """
    try:
        has = {cell: client.store(store).current_epoch().epoch for cell, client in cells.items()}
    except JobElsewhere:
        return
    reason = " and ".join(f"the cell {cell} has it with epoch {epoch}" for cell, epoch in has.items())
    yield Finding(store, Kind.CELLS, "", reason, see=_CELLS)


def newest_of(found: Verification) -> int | None:
    """Return the revision of the newest snapshot or savepoint without damage; None if there is none."""
    snapshot = newest_whole([*found.kept.snapshots, *(savepoint.snapshot for savepoint in found.kept.savepoints)])
    return None if snapshot is None else snapshot.revision


def replicas(urls: Iterable[str], token: str | None, verify: Verify, timeout: float) -> Iterator[Finding]:
    """Yield the damage that the replicas at ``urls`` report about themselves. A replica that does not answer is left
    out.

    If the service uses tokens, a replica reports damage only to a token that may read every store.
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
    """The kinds of damage that ``milepost fsck`` finds."""

    SERVICE = "service"
    STORE = "record of a store"
    RECORD = "record of a handle"
    STATE = "state of a handle"
    TREE = "record of files"
    FILES = "files of now"
    KEPT = "files of before"
    CELLS = "job in two cells"


class Repair(str, Enum):
    """The repairs that ``milepost fsck --repair`` can make."""

    REMOVE = "remove the handle"
    ROLL_BACK = "roll the files back"


@dataclass(frozen=True)
class Finding:
    """One damage that ``milepost fsck`` found. If ``repair`` is None, the command cannot repair it, and ``see`` is the
    page that says what to do.

    If the files of a job are damaged, ``revision`` is that of the newest snapshot or savepoint without damage.
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
        """The effect of the repair in words, shown to the user who must agree to it."""
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
    """How many stores, handles and files were examined."""

    stores: int = 0
    handles: int = 0
    files: int = 0

"""The command `fsck`, and its repairs. Each finding is checked again first, since it may have been repaired
meanwhile.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from typing import Annotated, Final

import typer

from milepost.cli.acting import holder, led
from milepost.cli.errors import ExitCode, asking, say
from milepost.cli.files import Within
from milepost.cli.fsck.looking import Examiner, Finding, Repair, newest_of, replicas
from milepost.cli.options import Options, Stores, shared
from milepost.cli.output import show_all
from milepost.cli.progress import NoProgress, Quiet, transfer
from milepost.cli.rollback import require_safe, roll_back
from milepost.cli.service import warn_of_unseen_stores
from milepost.client import Client
from milepost.errors import Damaged, MilepostError, VersionMismatch
from milepost.session import Session
from milepost.store import StateHandleStore

_SESSION_SECONDS = 60.0

_NO_VERSION: Final = "damaged"
"""No handle has this version, so a removal with it removes only a record that cannot be read, which has no version to
compare.
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
            found = list(replicas(options.urls, options.token, options.verify(), options.timeout))
            for summary in client.stores():
                if not store or any(fnmatchcase(summary.store, pattern) for pattern in store):
                    found += examiner.store(summary)
        show_all(context, found, ("store", "kind", "name", "reason", "repair", "see"))
        looked = examiner.looked
        if not quiet:
            counts = f"{looked.stores} stores, {looked.handles} handles and {looked.files} files"
            typer.echo(f"{counts} were looked at: {len(found) or 'no'} damages", err=True)
        if repair:
            _repair_all(context, client, found, yes=yes, deep=deep, within=within)
    if found:
        raise typer.Exit(ExitCode.REFUSED)


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
    with client.session(holder(context), _SESSION_SECONDS) as session:
        repairer = Repairer(session, deep=deep, within=within)
        for finding in repairable:
            typer.echo(f"to {finding.step}", err=True)
            if not yes and not _is_wanted():
                continue
            try:
                typer.echo(f"{finding.name or 'the files'} of {finding.store} {repairer.repair(finding)}", err=True)
            except MilepostError as error:  # other findings may still be repaired
                say(error)


def _is_wanted() -> bool:
    with asking():
        return typer.confirm("do it?", err=True)


class Repairer:
    """Repairs one finding after the other, in the name of a session."""

    def __init__(self, session: Session, *, deep: bool, within: float) -> None:
        self._session = session
        self._deep = deep
        self._within = within

    def repair(self, finding: Finding) -> str:
        """Carry the repair out; return its result.

        No repair is made while a driver leads: raises `EpochHeld`. Raises the errors of the writes, too.
        """
        store = self._session.store(finding.store)
        if finding.repair is Repair.REMOVE:
            return self._remove(store, finding.name)
        # checked before the epoch is taken, so that a rollback that is refused raises no epoch
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
        """Roll back to the newest whole snapshot or savepoint, which is determined under the epoch, so that no driver
        writes any more.
        """
        found = store.files.verify(digests=self._deep, timeout=self._within)
        revision = newest_of(found)
        if found.intact:
            return "are whole by now, so they were left alone"
        if revision is None:
            return "have no whole snapshot any more, so they were left alone"
        before = roll_back(store, revision, f"@{revision}")
        return f"are those of revision {revision} again; what they were is kept as {before}"

"""The command `fsck`."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from typing import Annotated

import typer

from milepost.cli.acting import holder
from milepost.cli.arguments import Stores
from milepost.cli.asking import asking
from milepost.cli.exit_codes import ExitCode, say
from milepost.cli.files import Within
from milepost.cli.fsck.findings import Finding
from milepost.cli.fsck.looking import Examiner, replicas
from milepost.cli.fsck.repairing import Repairer
from milepost.cli.options import Options, shared
from milepost.cli.output import show_all
from milepost.cli.progress import NoProgress, Quiet, transfer
from milepost.cli.rights import warn_of_unseen_stores
from milepost.client import Client
from milepost.errors import MilepostError

_SESSION_SECONDS = 60.0


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
    """Look through all stores for damage.

    The exit code is 1 if there is any, repaired or not. What cannot be repaired here is named with the page that says
    what to do.
    """
    if repair and not yes and not sys.stdin.isatty():
        raise typer.BadParameter("asks for each step on a terminal; without one, give --yes", param_hint="'--repair'")
    options: Options = context.obj
    with options.client(direct=False) as client:
        warn_of_unseen_stores(options, store)
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
            except MilepostError as error:  # the others may be repaired all the same
                say(error)


def _is_wanted() -> bool:
    with asking():
        return typer.confirm("do it?", err=True)

"""The commands `backup` and `restore`, which save the content of a service in a file and write it into a service."""

from __future__ import annotations

import os
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer

from milepost.cli.acting import changing_several
from milepost.cli.backup.archive import ArchiveWriter, Backup, opened
from milepost.cli.backup.format import BadBackup
from milepost.cli.backup.plan import CannotRestore, Planned, Planner
from milepost.cli.backup.restoring import Restorer
from milepost.cli.backup.saving import Saver
from milepost.cli.errors import ExitCode, errors_end_the_command, say
from milepost.cli.options import Options, Stores, shared
from milepost.cli.output import report
from milepost.cli.progress import NoProgress, Quiet, transfer
from milepost.cli.service import status_of_leader, warn_of_unseen_stores

_STANDARD = Path("-")


@shared
def backup(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(help="File or directory to write the backup to; - is standard output.")],
    store: Stores = None,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
) -> None:
    """Save handles, states, the files of jobs and their histories, while the service runs.

    Damaged data cannot be saved: the command names it, saves everything else, and exits with code 1.
    """
    options: Options = context.obj
    damages: list[str] = []
    lost: Counter[str] = Counter()
    with ExitStack() as stack:
        client = stack.enter_context(options.client())
        warn_of_unseen_stores(client, store)
        changed = stack.enter_context(changing_several(context, client))
        path = target / _file_name() if target.is_dir() else target
        with _written(path) as out, transfer("backup", None, quiet=quiet, no_progress=no_progress) as bar:
            archive = ArchiveWriter(out)
            saver = Saver(client, archive, bar, changed)
            for summary in client.stores():
                if _wanted(summary.store, store):
                    record = saver.save(summary)
                    damages += record.damages()
                    lost += record.lost()
            counts = archive.end()
    for damage in damages:
        typer.echo(f"not saved: {damage}", err=True)
    for job in saver.without_snapshot:
        typer.echo(f"not saved: the files of {job}, which has not committed a batch yet", err=True)
    if path != _STANDARD and not quiet:
        sentence = f"{path} has {_counted(counts, lost)}"
        report(context, sentence, file=str(path), **counts)
    if damages:
        raise typer.Exit(ExitCode.REFUSED)


@shared
def restore(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="File with a backup; - is standard input.")],
    store: Stores = None,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Restore a store under another name.")
    ] = None,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave alone what is there already and the same; else refuse.")
    ] = False,
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Read the backup through, and ask no service.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0.0, max=60.0, help="Seconds to wait where a driver leads a store already.")
    ] = 0.0,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
) -> None:
    """Restore a backup into a service.

    The command reads the whole backup first, and names every obstacle before anything is written. After an
    interruption, the same command with --skip-existing continues.
    """
    options: Options = context.obj
    names = _names(rename or [])
    if source != _STANDARD and not source.is_file():
        raise typer.BadParameter(f"there is no file {str(source)!r}", param_hint="'source'")
    size = source.stat().st_size if source != _STANDARD else None
    try:
        with errors_end_the_command(), ExitStack() as stack:
            with transfer("check", size, quiet=quiet, no_progress=no_progress) as bar:
                found = stack.enter_context(opened(source, sys.stdin.buffer, bar.advance))
            if verify_only:
                missing: Counter[str] = Counter()
                for record in found.stores():
                    _say_lost(record.damages())
                    missing += record.lost()
                report(
                    context, f"{source} is whole: {_counted(found.counts, missing)}, of {found.created}", **found.counts
                )
                return
            client = stack.enter_context(options.client())
            leads = [status_of_leader(options, one) for one in client.by_cell().values()]
            above = min(0 if each is None else each.epochs_above or 0 for each in leads)
            planner = Planner(found, client, above, skip_existing=skip_existing)
            planned = _planned(planner, found, store, names)
            changed = stack.enter_context(changing_several(context, client))
            bar = stack.enter_context(transfer("restore", found.counts["bytes"], quiet=quiet, no_progress=no_progress))
            restorer = Restorer(found, changed, bar, wait)
            for each in planned:
                restorer.restore(each)
            done, refused = restorer.done, restorer.refused
            notes = [*planner.notes, *restorer.notes, *refused]
    except BadBackup as error:
        say(error)
        raise typer.Exit(ExitCode.REFUSED) from error
    lost = [damage for each in planned for damage in each.record.damages()]
    _say_lost(lost)
    for note in notes:
        typer.echo(note, err=True)
    if not quiet:
        sentence = f"{done.handles} handles and {done.files} files in {done.stores} stores are restored"
        sentence += f", with {done.histories} histories" if done.histories else ""
        more = f"; {done.skipped} were there already" if done.skipped else ""
        report(context, sentence + more, **vars(done))
    if lost or refused:
        raise typer.Exit(ExitCode.REFUSED)


def _planned(planner: Planner, found: Backup, patterns: list[str] | None, names: dict[str, str]) -> list[Planned]:
    """Return the plan for each store of the backup whose name matches one of ``patterns`` (None: for all stores).

    ``names`` has the new name of each store that is to be renamed. All plans are made before anything is written.
    Raises `CannotRestore` if a store cannot be restored.
    """
    records = [record for record in found.stores() if _wanted(record.name, patterns)]
    planned = [planner.plan(record, names.get(record.name, record.name)) for record in records]
    conflicts = planner.conflicts
    sources, targets = {each.record.name for each in planned}, Counter(each.target for each in planned)
    conflicts += [f"--rename: the backup has no store {name!r} to be restored" for name in names.keys() - sources]
    conflicts += [f"two stores would become {name!r}" for name, count in targets.items() if count > 1]
    if conflicts:
        for conflict in conflicts:
            typer.echo(conflict, err=True)
        raise CannotRestore(f"nothing was restored, for the reasons above ({len(conflicts)}){planner.hint}")
    return planned


def _wanted(name: str, patterns: list[str] | None) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _names(renames: list[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in renames]
    for old, separator, new in pairs:
        if not (old and separator and new):
            raise typer.BadParameter(f"takes OLD=NEW, not {old + separator + new!r}", param_hint="'--rename'")
    return {old: new for old, _, new in pairs}


def _file_name() -> str:
    return f"milepost-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}.tar"


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write, which is renamed to ``path`` once the block has ended without an error.

    Only its owner may read the file, since it contains all states. If ``path`` is a symbolic link, the link is
    followed. If it is not a regular file (a pipe, a device), it is written directly; ``-`` is standard output.
    """
    if path == _STANDARD:
        yield cast(BinaryIO, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no directory {str(path.parent)!r}", param_hint="'target'")
    final = path.resolve()
    if final.exists() and not final.is_file():
        with final.open("wb") as out:
            yield out
        return
    part = final.with_name(f".{final.name[:200]}.{uuid.uuid4().hex[:8]}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            yield cast(BinaryIO, out)
            out.flush()
            os.fsync(out.fileno())
        part.replace(final)
    finally:
        part.unlink(missing_ok=True)


def _say_lost(lost: Iterable[str]) -> None:
    for damage in lost:
        typer.echo(f"not in the backup: {damage}", err=True)


def _counted(counts: dict[str, int], lost: Counter[str]) -> str:
    """Return in words how many stores, handles and files were saved. For a kind of which some could not be saved, name
    the total as well.
    """
    stores, handles, files = (
        f"{counts[kind] - lost[kind]} of {counts[kind]} {kind}" if lost[kind] else f"{counts[kind]} {kind}"
        for kind in ("stores", "handles", "files")
    )
    return f"{stores}, {handles} and {files} of {counts['bytes']} bytes"

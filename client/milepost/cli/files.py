"""The commands of ``milepost files``: they list, check, keep, roll back and clone the files of a job.

A rollback is refused if the job record has later batches than the snapshot, because the job could then never continue.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from milepost.cli.acting import changing
from milepost.cli.errors import ExitCode
from milepost.cli.options import Options, shared
from milepost.cli.output import Form, report, show, show_all
from milepost.cli.service import of_store
from milepost.cloning import require_no_files
from milepost.restoring import require_safe, roll_back, snapshot_of
from milepost.types import Snapshot, Verification

files = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Job = Annotated[str, typer.Argument(help="Name of the job's store.")]
Within = Annotated[float, typer.Option(min=0.1, help="Seconds that it may take.")]


@dataclass(frozen=True)
class SnapshotLine:
    """A line of ``milepost files snapshots``. ``snapshot`` is the name of the snapshot's directory below ``.snapshot``.

    ``kind`` is ``snapshot``, ``savepoint``, or ``passed over`` by a rollback. ``taken`` is when the batch of the
    snapshot was committed, and ``epoch`` the epoch of that commit.
    """

    snapshot: str
    kind: str
    directory: str
    batch: int
    revision: int
    intact: bool | None
    taken: datetime | None
    epoch: int | None


@files.callback()
@shared
def about_files(context: typer.Context) -> None:
    """Show, verify and keep the files of a job."""


@files.command()
@shared
def snapshots(context: typer.Context, store: Job) -> None:
    """List the kept snapshots: the newest, savepoints, and those that a roll-back passed over."""
    options: Options = context.obj
    with options.client() as client:
        kept = client.store(store).files.snapshots()
        lines = [_line(snapshot.name, "snapshot", snapshot) for snapshot in kept.snapshots]
        lines += [_line(savepoint.name, "savepoint", savepoint.snapshot) for savepoint in kept.savepoints]
        lines += [_line(snapshot.name, "passed over", snapshot) for snapshot in kept.passed_over]
        found = of_store(client, store, lines)
        show_all(context, found, ("snapshot", "kind", "batch", "taken", "epoch", "directory", "revision"))


@files.command()
@shared
def verify(
    context: typer.Context,
    store: Job,
    digests: Annotated[bool, typer.Option(help="Read all bytes and compare their digests.")] = False,
    within: Within = 600.0,
) -> None:
    """Check that the bytes of all files exist.

    The exit code is 1 if any are missing, of the present files or of kept snapshots.
    """
    options: Options = context.obj
    with options.client() as client:
        found = client.store(store).files.verify(digests=digests, timeout=within)
        list(of_store(client, store, [found] if found.files else []))
    show(context, found if options.form is not Form.TABLE else _in_brief(found))
    if found.damaged_count:
        raise typer.Exit(ExitCode.REFUSED)


@files.command()
@shared
def savepoint(
    context: typer.Context,
    store: Job,
    name: Annotated[str, typer.Argument(help="Name of the savepoint.")],
    revision: Annotated[int, typer.Option(min=0, help="Revision of the snapshot; 0: the newest.")] = 0,
) -> None:
    """Keep a snapshot under a name: a savepoint."""
    with changing(context, store) as opened:
        kept = opened.files.make_savepoint(name, revision)
    report(context, f"{name} keeps the snapshot at revision {kept}", savepoint=name, revision=kept)


@files.command()
@shared
def drop_savepoint(
    context: typer.Context, store: Job, name: Annotated[str, typer.Argument(help="Name of the savepoint.")]
) -> None:
    """Drop a savepoint; its snapshot is then kept as long as any other."""
    with changing(context, store) as opened:
        opened.files.drop_savepoint(name)
    report(context, f"the savepoint {name} is dropped", savepoint=name)


@files.command("roll-back")
@shared
def roll_back_files(
    context: typer.Context,
    store: Job,
    snapshot: Annotated[str, typer.Argument(help="Name of a savepoint, or the revision of a snapshot.")],
) -> None:
    """Roll the files back to a snapshot.

    The command needs the job's epoch, so no driver may lead the job. It refuses a job of job.files or job.exactlyOnce
    that has published later batches. The files from before are kept as a snapshot, to undo this.
    """
    options: Options = context.obj
    # checked before the campaign, so that a refused rollback does not raise the epoch
    with options.client() as client:
        known = client.store(store)
        require_safe(known, snapshot_of(known.files.snapshots(), snapshot)[1])
    with changing(context, store, campaign=True) as opened:
        revision, name = snapshot_of(opened.files.snapshots(), snapshot)
        before = roll_back(opened, revision, name)
    sentence = f"the files are those of revision {revision} again; what they were is kept as {before}"
    report(context, sentence, revision=revision, before=before)


@files.command()
@shared
def clone(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="Name of the job to be cloned.")],
    snapshot: Annotated[str, typer.Argument(help="Name of a savepoint, or @ and the revision of a snapshot.")],
    store: Annotated[str, typer.Argument(help="Name of the job that begins, which must have no files.")],
    within: Within = 600.0,
) -> None:
    """Begin a job with the files of a snapshot of another job."""
    options: Options = context.obj
    with options.client() as client:  # checked before the campaign, which would create a missing store
        _, name = snapshot_of(client.store(source).files.snapshots(), snapshot)
        require_no_files(client.store(store))
    with changing(context, store, campaign=True) as opened:
        copied = opened.files.clone(source, name, timeout=within)
    sentence = f"{store} begins with {copied.files} files of {copied.bytes} bytes"
    report(context, sentence, store=store, files=copied.files, bytes=copied.bytes)


def _line(name: str, kind: str, snapshot: Snapshot) -> SnapshotLine:
    return SnapshotLine(
        name,
        kind,
        snapshot.directory,
        snapshot.batch,
        snapshot.revision,
        snapshot.intact,
        snapshot.taken,
        snapshot.epoch,
    )


def _in_brief(found: Verification) -> dict[str, Any]:
    """Return the fields of ``found`` for a table, which has no room for lists: only the paths of the damaged files, and
    the number of snapshots.
    """
    kept = [
        *found.kept.snapshots,
        *(savepoint.snapshot for savepoint in found.kept.savepoints),
        *found.kept.passed_over,
    ]
    damaged = sum(snapshot.intact is False for snapshot in kept)
    snapshots = f"{len(kept)} snapshots, {damaged} of them damaged" if damaged else f"{len(kept)} snapshots"
    if found.kept.snapshots:
        snapshots += f", the newest snapshot is of batch {found.kept.snapshots[-1].batch}"
    return {**asdict(found), "damaged": [file.path for file in found.damaged], "kept": snapshots}

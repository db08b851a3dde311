"""The commands of ``milepost jobs`` that begin a job as a clone of another one, compare two, and delete a job."""

from __future__ import annotations

import sys
from dataclasses import asdict
from itertools import count
from typing import Annotated

import typer

from milepost.cli.acting import changing
from milepost.cli.errors import ExitCode, asking
from milepost.cli.files import Within
from milepost.cli.jobs import AsOf, DryRun, Job, Named, OfBatch
from milepost.cli.options import Options, shared
from milepost.cli.output import report, show_all
from milepost.client import Client
from milepost.cloning import clone
from milepost.cloning import planned as planned_clone
from milepost.comparing import difference
from milepost.dropping import JobDrop, drop
from milepost.dropping import planned as planned_drop
from milepost.errors import InvalidRequest
from milepost.restoring import chosen
from milepost.wire import Code


@shared
def clone_job(
    context: typer.Context,
    job: Job,
    new: Annotated[str, typer.Argument(help="Name of the job that begins, which must have no files and no record.")],
    snapshot: Named = None,
    batch: OfBatch = None,
    as_of: AsOf = None,
    new_query_id: Annotated[
        bool, typer.Option("--new-query-id", help="Give the query of the clone another id than the original's has.")
    ] = False,
    dry_run: DryRun = False,
    within: Within = 600.0,
) -> None:
    """Begin a job as a clone of another one: with its files, its job record and its managed state.

    The clone goes on after the snapshot's batch, that of the newest snapshot unless one is named, and publishes
    elsewhere: its output begins empty. It is one commit. The original is only read, and may be led meanwhile.
    """
    if sum(given is not None for given in (snapshot, batch, as_of)) > 1:
        raise typer.BadParameter("give one of SNAPSHOT, --batch and --as-of, or none")
    options: Options = context.obj
    with options.client() as whole:  # planned before the campaign, which would create a missing store
        client = _cell_of_both(whole, job, new)
        source = client.store(job)
        kept = source.files.snapshots()
        name = chosen(kept, snapshot, batch, as_of)
        made = planned_clone(client.store(new), source, name, new_query_id=new_query_id, timeout=within)
        if not dry_run:
            with changing(context, new, campaign=True, begin=True) as opened:
                made = clone(opened, source, made.snapshot, new_query_id=new_query_id, timeout=within)
    said = (
        f"{new} would begin" if made.files is None else f"{new} begins with {made.files} files of {made.bytes} bytes,"
    )
    becomes = "".join(f"\n  {what}: {getattr(made, what)}" for what in ("query", "input", "state", "output", "sink"))
    report(context, f"{said} as a clone of {job} at batch {made.batch} ({made.snapshot}){becomes}", **asdict(made))


def _cell_of_both(client: Client, job: str, new: str) -> Client:
    """Return the client of the cell that has a job, if a clone of it may begin there. Raises `InvalidRequest`."""
    one, other = client.of_job(job), client.of_job(new)
    if one.cell == other.cell:
        return one
    fits = next(name for number in count(2) if client.of_job(name := f"{new}-{number}").cell == one.cell)
    raise InvalidRequest(
        Code.INVALID_REQUEST,
        f"{new} is or begins in the cell {other.cell}, and {job} is in {one.cell}: take a name for the clone that"
        f" begins there, such as {fits}",
    )


@shared
def diff_jobs(
    context: typer.Context,
    left: Annotated[str, typer.Argument(help="A job, or a snapshot of one: flights@42, flights@before-upgrade.")],
    right: Annotated[str, typer.Argument(help="Another job or snapshot, or one of the same job.")],
    files: Annotated[bool, typer.Option("--files/--no-files", help="Compare the files of the state, too.")] = True,
) -> None:
    """Show what differs between two jobs or snapshots: offsets, settings, job records, schemas, and files of state.

    The exit code is 0 if nothing differs, and 1 if something does.
    """
    options: Options = context.obj
    (left_job, left_snapshot), (right_job, right_snapshot) = (_side(each) for each in (left, right))
    with options.client() as client:
        for each in (left_job, right_job):
            client.job_info(each)  # raises if there is no such job
        stores = client.store(left_job), client.store(right_job)
        found = difference(*stores, (left_snapshot, right_snapshot), files=files)
    show_all(context, found, ("part", "name", "left", "right"))
    if found:
        raise typer.Exit(ExitCode.REFUSED)


def _side(text: str) -> tuple[str, str | None]:
    job, at, snapshot = text.partition("@")
    return job, snapshot if at else None


@shared
def drop_job(
    context: typer.Context,
    job: Job,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for the name of the job.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a job: its files, its job record, its managed state, its handles, snapshots and savepoints.

    The command needs the job's epoch, so no driver may lead the job. It is one commit, and cannot be undone. The
    output that the job published stays: the command names it. The history of the job stays, too.
    """
    options: Options = context.obj
    with options.client() as client:
        info = client.job_info(job)
        plan = planned_drop(client.store(job), info)
    if info.state == "dropped":
        report(context, f"{job} is dropped already", **asdict(plan))
        return
    if not dry_run:
        if not yes:
            _ask_for(job, plan)
        with changing(context, job, campaign=True) as opened:
            plan = drop(opened, plan)
    report(context, _said(plan), **asdict(plan))


def _ask_for(job: str, plan: JobDrop) -> None:
    """Ask for the name of the job on a terminal, and end the command if another one is typed."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("asks for the name of the job on a terminal; without one, give --yes")
    typer.echo(_said(plan), err=True)
    with asking():
        typed = typer.prompt("This cannot be undone. Type the name of the job to drop it", err=True)
    if typed != job:
        typer.echo(f"{typed!r} is not the name of the job: nothing is changed", err=True)
        raise typer.Exit(ExitCode.REFUSED)


def _said(plan: JobDrop) -> str:
    would = "is dropped, and had" if plan.dropped else "would be dropped: it has"
    kept = f", and the savepoints {', '.join(plan.savepoints)}" if plan.savepoints else ""
    said = f"{plan.job} {would} {plan.handles} handles and {plan.snapshots} snapshots{kept}"
    if plan.outputs is None:
        return f"{said}\n  output: the job record cannot be read, so it is not known where output stays"
    return f"{said}\n  output: {_stays(plan.outputs)}"


def _stays(outputs: tuple[str, ...]) -> str:
    if not outputs:
        return "job.files has published nothing; what a sink of the job's own got stays"
    return f"the files in {', '.join(outputs)} stay: delete them where nothing reads them any more"

"""The commands of ``milepost jobs``, which show each job as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from milepost.cli.acting import changing
from milepost.cli.errors import ExitCode
from milepost.cli.files import Within
from milepost.cli.options import Options, shared
from milepost.cli.output import report, show, show_all
from milepost.client import Client
from milepost.errors import Damaged, NotExist
from milepost.restoring import newest_as_of, newest_of_batch, planned, restore
from milepost.types import JobInfo, StoreSummary

jobs = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Show the jobs: who leads, who stands by, how far."
)

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds_of(text: str) -> float:
    """Return the seconds of a time such as ``90s``, ``10m``, ``2h`` or ``1d``; a number without a unit is seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    if not re.fullmatch(r"\d+(\.\d+)?", number):
        raise typer.BadParameter(f"{text!r} is not a time such as 90s, 10m, 2h or 1d")
    return float(number) * _UNITS[unit]


Job = Annotated[str, typer.Argument(help="Name of the job, which is that of its store.")]


@jobs.command("ls")
@shared
def list_jobs(context: typer.Context) -> None:
    """List the jobs: the stores that have an epoch or files.

    STATE is led, lost (the driver's session ended before it resigned), resigned, new or damaged. AGE is the number of
    seconds since the last batch.
    """
    options: Options = context.obj
    with options.client() as client:
        columns = ("job", "state", "epoch", "holder", "standbys", "batch", "age", "batches_an_hour", "damaged")
        show_all(context, _lines(client), columns)


@jobs.command("show")
@shared
def show_job(context: typer.Context, job: Job) -> None:
    """Show a job: who leads it and since when, who stands by, its last batch, and its savepoints."""
    options: Options = context.obj
    with options.client() as client:
        info = client.job_info(job)
    show(
        context,
        {
            **_line(info),
            "session": info.epoch.session,
            "since": info.epoch.since,
            "expires_in": info.expires_in,
            "standbys": [f"{each.holder or each.session} since {_text(each.since)}" for each in info.standbys],
            "taken": info.batch and info.batch.taken,
            "directory": info.batch and info.batch.directory,
            "snapshots": len(info.kept.snapshots),
            "savepoints": [each.name for each in info.kept.savepoints],
            "handles": info.handles,
        },
    )


@jobs.command("check")
@shared
def check_job(
    context: typer.Context,
    job: Job,
    max_age: Annotated[
        float | None,
        typer.Option(parser=_seconds_of, metavar="<time>", help="How old the last batch may be: 90s, 10m, 2h, 1d."),
    ] = None,
) -> None:
    """Check that a driver leads the job, that none of its records is damaged, and that its last batch is recent.

    The exit code is 0 if so, and 1 if not, with a line on stderr for each complaint: for cron, Airflow and probes.
    """
    options: Options = context.obj
    with options.client() as client:
        line = _line(client.job_info(job))
    complaints = list(_complaints(line, max_age))
    for complaint in complaints:
        typer.echo(complaint, err=True)
    if complaints:
        raise typer.Exit(ExitCode.REFUSED)
    batch = "no batch yet" if line["batch"] is None else f"batch {line['batch']}"
    report(context, f"{job} is led by {line['holder']}: {batch}", **line)


@jobs.command("restore")
@shared
def restore_job(
    context: typer.Context,
    job: Job,
    snapshot: Annotated[
        str | None, typer.Argument(help="Name of a savepoint, or the revision of a snapshot, with or without @.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=0, help="In place of SNAPSHOT: the newest snapshot of this batch.")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z"],
            help="In place of SNAPSHOT: the newest snapshot from this time or before.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would do, and change nothing.")] = False,
    within: Within = 600.0,
) -> None:
    """Restore a job to a snapshot: files, job record, published output and managed state go back together.

    The command needs the job's epoch, so no driver may lead the job. It is one commit. The present state is kept as a
    snapshot; a restore to that one undoes this. Output that counts no more stays until it expires.
    """
    if sum(given is not None for given in (snapshot, batch, as_of)) != 1:
        raise typer.BadParameter("give one of SNAPSHOT, --batch and --as-of")
    options: Options = context.obj
    with options.client() as client:  # planned before the campaign, so that a refused restore does not raise the epoch
        store = client.store(job)
        kept = store.files.snapshots()
        if batch is not None:
            snapshot = newest_of_batch(kept, batch)
        elif as_of is not None:
            snapshot = newest_as_of(kept, as_of)
        plan = planned(store, snapshot or "", timeout=within)
    if not dry_run:
        with changing(context, job, campaign=True) as opened:
            plan = restore(opened, plan.snapshot, timeout=within)
    said = f"{job} would go back to" if plan.undo is None else f"{job} is back at"
    undo = "" if plan.undo is None else f"; milepost jobs restore {job} {plan.undo} undoes it"
    becomes = "".join(f"\n  {what}: {getattr(plan, what)}" for what in ("source", "state", "output", "sink"))
    report(context, f"{said} batch {plan.batch}{undo}{becomes}", **asdict(plan))


def _complaints(line: dict[str, Any], max_age: float | None) -> Iterator[str]:
    job, age = line["job"], line["age"]
    if line["state"] != "led":
        yield f"no driver leads {job}: it is {line['state']}, and {line['standbys']} stand by"
    if line["damaged"]:
        yield f"{line['damaged']} records of {job} are damaged: milepost fsck says which"
    if max_age is not None and age is None:
        yield f"{job} has no batch whose time is known"
    elif max_age is not None and age > max_age:
        yield f"the last batch of {job}, {line['batch']}, is {age:g} s old, and may be {max_age:g} s"


def _lines(client: Client) -> Iterator[dict[str, Any]]:
    for store in client.stores():
        if store.epoch or store.epoch is None or store.snapshot is not None:
            try:
                yield _line(client.job_info(store.store))
            except Damaged:
                yield _damaged(store)
            except NotExist:
                continue  # the job was dropped since it was listed


def _line(info: JobInfo) -> dict[str, Any]:
    last, often = info.batch, info.batches_an_hour
    return {
        "job": info.job,
        "state": info.state,
        "epoch": info.epoch.epoch,
        "holder": info.epoch.holder,
        "standbys": info.standby_count,
        "batch": last and last.batch,
        "age": None if last is None or last.taken is None else _seconds_since(last.taken),
        "batches_an_hour": None if often is None else round(often, 1),
        "damaged": info.damaged,
    }


def _damaged(store: StoreSummary) -> dict[str, Any]:
    nothing = dict.fromkeys(("holder", "standbys", "batch", "age", "batches_an_hour"))
    return {"job": store.store, "state": "damaged", "epoch": store.epoch, **nothing, "damaged": store.damaged}


def _seconds_since(then: datetime) -> float:
    return round(max(0.0, (datetime.now(timezone.utc) - then).total_seconds()), 1)


def _text(time: datetime | None) -> str:
    return "-" if time is None else time.isoformat()

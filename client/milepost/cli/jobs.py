"""The commands of ``milepost jobs``, which show each job as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import islice
from typing import Annotated, Any

import typer

from milepost.cli.errors import ExitCode
from milepost.cli.options import Options, shared
from milepost.cli.output import Form, report, show, show_all
from milepost.client import Client
from milepost.errors import Damaged, NotExist
from milepost.types import HistoryEntry, JobInfo, Process, StandbyInfo, StoreSummary

jobs = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Show the jobs: who leads, who stands by, how far, and their history.",
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
            **_process(info.process),
            "since": info.epoch.since,
            "expires_in": info.expires_in,
            "standbys": [_standby(each) for each in info.standbys],
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


@jobs.command("history")
@shared
def show_history(
    context: typer.Context,
    job: Job,
    limit: Annotated[int, typer.Option(min=1, help="The most entries to show.")] = 50,
) -> None:
    """Show what became of a job, the newest entry first: its epochs, its batches, and what people did.

    WHO is the holder of the session that led or acted, and the name of its token if the service uses tokens. JSON and
    YAML have all that is known of each entry.
    """
    options: Options = context.obj
    with options.client() as client:
        entries = list(islice(client.job_history(job), limit))
    rows: list[Any] = entries if options.form is not Form.TABLE else [_row(entry) for entry in entries]
    show_all(context, rows, ("time", "what", "epoch", "batch", "who", "detail"))


def _row(entry: HistoryEntry) -> dict[str, Any]:
    """Return an entry of a history as a row of the table."""
    who = ", ".join(each for each in (entry.holder or entry.session, entry.by and f"token {entry.by}") if each)
    return {
        "time": entry.at,
        "what": entry.kind,
        "epoch": entry.epoch,
        "batch": entry.batch,
        "who": who or None,
        "detail": _detail(entry),
    }


def _detail(entry: HistoryEntry) -> str | None:
    match entry.kind:
        case "epoch-granted":
            stated = (f"{name} {value}" for name, value in _process(entry.process).items() if value is not None)
            return ", ".join(stated) or None
        case "epoch-ended":
            return f"{entry.how}, led since {_text(entry.since)}" if entry.since else entry.how
        case "batch-committed":
            of = f"of {entry.directory}" if entry.directory else "of the root"
            return f"{of}, committed again" if entry.replay else of
        case "savepoint-made" | "savepoint-dropped":
            return f"{entry.savepoint}, snapshot @{entry.snapshot}"
        case "rolled-back":
            left = f", from batch {entry.previous_batch} (@{entry.previous})" if entry.previous else ""
            return f"to batch {entry.batch} (@{entry.snapshot}){left}"
        case "cloned":
            return f"{entry.files} files of {entry.source}"
        case "damaged":
            return f"page {entry.page} cannot be read: {entry.reason}"
        case _:
            return None


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


def _process(process: Process | None) -> dict[str, Any]:
    found = process or Process()
    return {"host": found.host, "pid": found.pid, "application": found.application, "ui": found.ui}


def _standby(standby: StandbyInfo) -> str:
    """Return a standby on one line: its holder, its process as far as that is described, and since when it waits."""
    stated = (f"{name} {value}" for name, value in _process(standby.process).items() if value is not None)
    about = ", ".join(stated)
    who = standby.holder or standby.session
    return f"{who}{f' ({about})' if about else ''} since {_text(standby.since)}"


def _damaged(store: StoreSummary) -> dict[str, Any]:
    nothing = dict.fromkeys(("holder", "standbys", "batch", "age", "batches_an_hour"))
    return {"job": store.store, "state": "damaged", "epoch": store.epoch, **nothing, "damaged": store.damaged}


def _seconds_since(then: datetime) -> float:
    return round(max(0.0, (datetime.now(timezone.utc) - then).total_seconds()), 1)


def _text(time: datetime | None) -> str:
    return "-" if time is None else time.isoformat()

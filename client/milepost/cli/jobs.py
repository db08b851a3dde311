"""The commands of ``milepost jobs``, which show each job as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Any

import typer

from milepost.cli.acting import holder, in_the_way
from milepost.cli.errors import ExitCode
from milepost.cli.options import Options, shared
from milepost.cli.output import Form, report, show, show_all
from milepost.cli.service import show_of_each_cell, warn_of_unseen_stores
from milepost.client import Client
from milepost.errors import Damaged, MilepostError, NotExist
from milepost.job_types import BegunBatch, HistoryEntry, JobInfo, JobSummary, StandbyInfo
from milepost.rescaling import JobRescale
from milepost.rescaling import planned as planned_rescale
from milepost.types import Process, Wish

jobs = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Show the jobs: who leads, who stands by, how far, and their history.",
)

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_STOPPED = frozenset({"resigned", "stopped", "new"})
"""The states of a job that no driver is meant to lead, as far as the service knows."""


def _seconds_of(text: str) -> float:
    """Return the seconds of a time such as ``90s``, ``10m``, ``2h`` or ``1d``; a number without a unit is seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    if not re.fullmatch(r"\d+(\.\d+)?", number):
        raise typer.BadParameter(f"{text!r} is not a time such as 90s, 10m, 2h or 1d")
    return float(number) * _UNITS[unit]


Job = Annotated[str, typer.Argument(help="Name of the job, which is that of its store.")]
Named = Annotated[
    str | None, typer.Argument(help="Name of a savepoint, or the revision of a snapshot, with or without @.")
]
OfBatch = Annotated[
    int | None,
    typer.Option(
        min=0, help="In place of SNAPSHOT: the newest snapshot of this batch that no restore has passed over."
    ),
]
AsOf = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z"],
        help="In place of SNAPSHOT: the newest snapshot from this time or before that no restore has passed over.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do, and change nothing.")]


@jobs.command("ls")
@shared
def list_jobs(
    context: typer.Context,
    dropped: Annotated[
        bool, typer.Option("--dropped", help="List the jobs that were dropped in place of these.")
    ] = False,
) -> None:
    """List the jobs: the stores that have an epoch or a snapshot of their files.

    STATE is led, stopping, stopped (by a person), lost (the driver's session ended before it resigned), resigned, new
    or damaged. AGE is the number of seconds since the last batch, by the service's clock.
    """
    options: Options = context.obj
    with options.client() as client:
        columns = ("job", "state", "epoch", "holder", "standbys", "batch", "age", "batches_an_hour", "damaged")
        show_of_each_cell(context, client, lambda one: map(_line, one.jobs(dropped=dropped)), columns)


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
            "wish": info.wish and _wish(info.wish),
            "session": info.epoch.session,
            **_process(info.process),
            "since": info.epoch.since,
            "expires_in": info.expires_in,
            "standbys": [_standby(each) for each in info.standbys],
            "taken": info.batch and info.batch.taken,
            "begun": [_begun(each, info) for each in info.begun],
            "directory": info.batch and info.batch.directory,
            "snapshots": len(info.kept.snapshots),
            "savepoints": [each.name for each in info.kept.savepoints],
            "handles": info.handles,
        },
    )


@jobs.command("check")
@shared
def check_jobs(
    context: typer.Context,
    jobs: Annotated[
        list[str] | None, typer.Argument(metavar="job", help="Names of jobs, or patterns of them with * and ?.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Check every job that the token may read.")] = False,
    max_age: Annotated[
        float | None,
        typer.Option(parser=_seconds_of, metavar="<time>", help="How old the last batch may be: 90s, 10m, 2h, 1d."),
    ] = None,
) -> None:
    """Check of each job that a driver leads, that no record is damaged, and that the last batch is recent.

    The exit code is 0 if so, and 1 if not, with a line on stderr for each complaint: for cron, Airflow and probes. With
    a pattern or --all, jobs that were stopped in order or never led are passed over; a job that you name must be led.
    """
    if bool(jobs) is every:
        raise typer.BadParameter("takes names or patterns of jobs, or --all instead", param_hint="'job'")
    options: Options = context.obj
    with options.client() as client:
        lines = list(_checked(client, ["*"] if every else jobs or [], max_age))
    show_all(context, lines, ("job", "state", "holder", "batch", "age"))
    complaints = [complaint for line in lines for complaint in line["complaints"]]
    for complaint in complaints:
        typer.echo(complaint, err=True)
    if complaints:
        raise typer.Exit(ExitCode.REFUSED)


def _checked(client: Client, wanted: list[str], max_age: float | None) -> Iterator[dict[str, Any]]:
    """Yield the line of each job that is wanted by its name or by a pattern, with the complaints about it."""
    patterns = [each for each in wanted if "*" in each or "?" in each]
    names = dict.fromkeys(each for each in wanted if each not in patterns)
    for name in names:
        try:
            line = _line(client.job_info(name))
        except NotExist:
            yield {"job": name, **_UNKNOWN, "state": "absent", "complaints": [f"there is no job {name}"]}
        except Damaged as error:
            yield {"job": name, **_UNKNOWN, "state": "damaged", "complaints": [f"{name} cannot be read: {error}"]}
        else:
            yield {**line, "complaints": list(_complaints(line, max_age))}
    if not patterns:
        return
    warn_of_unseen_stores(client, patterns)
    matched = 0
    for each in client.jobs():
        if not any(fnmatchcase(each.job, pattern) for pattern in patterns):
            continue
        matched += 1
        if each.job not in names and (each.state not in _STOPPED or each.damaged):
            line = _line(each)
            yield {**line, "complaints": list(_complaints(line, max_age))}
    if not matched:
        typer.echo(f"warning: no job matches {' '.join(patterns)}", err=True)


@jobs.command("rescale")
@shared
def rescale_job(
    context: typer.Context,
    job: Job,
    partitions: Annotated[int, typer.Argument(min=1, help="Number of partitions that the state shall have.")],
    settings: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark. May be repeated.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Divide the state of a job's operators among another number of partitions, by Spark's offline repartition.

    The command needs the job's epoch, so no driver may lead the job, and runs Spark on this machine: it takes pyspark
    and Java. The rescale counts as a whole or not at all. For a state that one machine cannot copy, call job.rescale in
    a program on your cluster.
    """
    options: Options = context.obj
    chosen = dict(_setting(each) for each in settings or ())
    with options.client() as client:
        done = planned_rescale(job, client.store(job).files, partitions)
        driver = in_the_way(client.job_info(job)) if dry_run else ""
        if not dry_run:
            done = _rescaled(options, job, partitions, chosen, holder(context))
    said = f"the state of {job} would have" if done.undo is None else f"the state of {job} has"
    undo = "" if done.undo is None else f"; milepost jobs restore {job} {done.undo} undoes it"
    becomes = "".join(f"\n  {what}: {getattr(done, what)}" for what in ("source", "state", "output", "sink"))
    text = f"{said} {partitions} partitions in place of {done.partitions_before}, as batch {done.batch}{undo}"
    report(context, f"{text}{becomes}{driver}", **asdict(done))


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="'--conf'")
    return key, value


def _rescaled(options: Options, job: str, partitions: int, settings: Mapping[str, str], who: str) -> JobRescale:
    """Rescale a job in a Spark of this process."""
    try:
        from pyspark.sql import SparkSession

        from milepost.spark import lead
    except ModuleNotFoundError as missing:
        raise MilepostError(f"a rescale takes {missing.name}: pip install 'milepost[spark]'") from missing
    builder = SparkSession.builder.appName(f"milepost jobs rescale {job}").config("spark.ui.enabled", "false")
    for key, value in {"spark.master": "local[*]", **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        with lead(
            spark,
            options.urls,
            job,
            holder=who,
            wait=30.0,
            must_exist=True,
            if_stopped=True,
            token=options.credential,
            verify=options.verify(),
        ) as led:
            return led.rescale(partitions)
    finally:
        spark.stop()


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
    if not entries:
        typer.echo(f"nothing is recorded of a job {job}: no driver ever led it", err=True)
    rows: list[Any] = entries if options.form is not Form.TABLE else [history_row(entry) for entry in entries]
    show_all(context, rows, ("time", "what", "epoch", "batch", "rows", "who", "detail"))


def history_row(entry: HistoryEntry) -> dict[str, Any]:
    """Return an entry of a history as a row of the table."""
    detail = (_detail(entry), "from a backup" if entry.restored else None)
    who = ", ".join(each for each in (entry.holder or entry.session, entry.by and f"token {entry.by}") if each)
    return {
        "time": entry.at,
        "what": entry.kind,
        "epoch": entry.epoch,
        "batch": entry.batch,
        "rows": entry.input_rows,
        "who": who or None,
        "detail": ", ".join(filter(None, detail)) or None,
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
            took = f", took {(entry.at - entry.since).total_seconds():.1f} s" if entry.at and entry.since else ""
            again = (
                f", begun under epoch {entry.begun_under} and run again under epoch {entry.epoch}, with the same input"
                if entry.begun_under
                else ""
            )
            return f"{of}{took}{again}{', committed again' if entry.replay else ''}"
        case "savepoint-made" | "savepoint-dropped":
            return f"{entry.savepoint}, snapshot @{entry.snapshot}" if entry.snapshot else entry.savepoint
        case "rolled-back":
            left = "" if entry.previous_batch is None else f", from batch {entry.previous_batch}"
            left += f" (@{entry.previous})" if entry.previous else ""
            return f"to batch {entry.batch}{f' (@{entry.snapshot})' if entry.snapshot else ''}{left}"
        case "stop-requested" | "hand-over-requested" | "started":
            made = f"with savepoint {entry.savepoint}" if entry.savepoint else None
            return "; ".join(filter(None, (made, entry.reason))) or None
        case "expired":
            first = 0 if entry.previous_batch is None else entry.previous_batch + 1
            return f"output of batches {first} to {entry.batch}"
        case "rescaled":
            among = f"{entry.previous_partitions} to {entry.partitions} partitions" if entry.partitions else None
            return among and f"state from {among}"
        case "cloned":
            return f"{entry.files} files of {entry.source}"
        case "moved":
            return f"from the cell {entry.source}"
        case "history-restored":
            what = f"the {entry.entries} entries before" if entry.entries else "goes on after an interruption"
            return f"{what}, from the backup of {entry.source} of {_text(entry.since)}"
        case "dropped":
            return None if entry.batch is None else f"at batch {entry.batch}"
        case "damaged":
            return f"page {entry.page} cannot be read: {entry.reason}"
        case "missed":
            return entry.reason
        case _:
            return None


def _complaints(line: dict[str, Any], max_age: float | None) -> Iterator[str]:
    job, age = line["job"], line["age"]
    if line["state"] not in ("led", "stopping"):
        yield f"no driver leads {job}: it is {line['state']}, and {line['standbys']} stand by"
    if line["damaged"]:
        yield f"{line['damaged']} records of {job} are damaged: milepost fsck says which"
    if max_age is None:
        return
    if line["batch"] is None:
        yield f"{job} has no batch yet, or its files are not in this service"
    elif age is None:
        yield f"it is not known when the last batch of {job}, {line['batch']}, was committed"
    elif age > max_age:
        yield f"the last batch of {job}, {line['batch']}, is {age:g} s old, and may be {max_age:g} s at most"


_UNKNOWN = dict.fromkeys(("epoch", "holder", "standbys", "batch", "age", "batches_an_hour", "damaged"))
"""What is not known of a job that does not exist, or that cannot be read."""


def _line(job: JobInfo | JobSummary) -> dict[str, Any]:
    last, age, often = job.batch, job.age, job.batches_an_hour
    return {
        "job": job.job,
        "state": job.state,
        "epoch": job.epoch and job.epoch.epoch,
        "holder": job.epoch and job.epoch.holder,
        "standbys": job.standby_count,
        "batch": last and last.batch,
        "age": None if age is None else round(age, 1),
        "batches_an_hour": None if often is None else round(often, 1),
        "damaged": job.damaged,
    }


def _process(process: Process | None) -> dict[str, Any]:
    found = process or Process()
    return {"host": found.host, "pid": found.pid, "application": found.application, "ui": found.ui}


def _begun(batch: BegunBatch, job: JobInfo) -> str:
    """Return on one line what becomes of a batch that is begun and not committed."""
    leads = job.state in ("led", "stopping")
    if leads and batch.epoch == job.epoch.epoch:
        fate = f"runs under epoch {batch.epoch}"
    else:
        who = f"epoch {job.epoch.epoch} runs" if leads else "the next driver runs"
        fate = f"left by epoch {batch.epoch or '-'}: {who} it again, with the same input, so nothing is lost"
    return f"batch {batch.batch} of {batch.directory or 'the root'}, begun at {_text(batch.since)}, {fate}"


def _wish(wish: Wish) -> str:
    """Return on one line what a person asks of the driver."""
    made = f", with savepoint {wish.savepoint}" if wish.savepoint else ""
    reason = f": {wish.reason}" if wish.reason else ""
    return f"{wish.kind} by {wish.person} at {_text(wish.at)}{made}{reason}"


def _standby(standby: StandbyInfo) -> str:
    """Return a standby on one line: its holder, its process as far as that is described, and since when it waits."""
    stated = (f"{name} {value}" for name, value in _process(standby.process).items() if value is not None)
    about = ", ".join(stated)
    who = standby.holder or standby.session
    return f"{who}{f' ({about})' if about else ''} since {_text(standby.since)}"


def _text(time: datetime | None) -> str:
    return "-" if time is None else time.isoformat()

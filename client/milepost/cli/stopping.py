"""The commands of ``milepost jobs`` by which a person stops a job, hands it over to a standby, and starts it again."""

from __future__ import annotations

import time
from typing import Annotated, Any, NoReturn

import typer

from milepost.cli.errors import ExitCode
from milepost.cli.jobs import Job
from milepost.cli.options import Options, shared
from milepost.cli.output import report
from milepost.client import Client
from milepost.errors import DeadlineExceeded
from milepost.job_types import JobInfo, JobState
from milepost.types import Epoch
from milepost.wire import STANDBY_SECONDS

_LOOK_SECONDS = 0.1

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do, and change nothing.")]
Reason = Annotated[str, typer.Option(help="Why, for people who look at the job and its history.")]
Within = Annotated[float, typer.Option(min=0.1, help="Seconds to wait until it is done.")]

_BECOMES = {
    "source": "the next driver goes on from the offsets after the last batch",
    "state": "stays as it is after the last batch",
    "output": "stays, and readers find it all the time",
    "sink": "gets no batch twice, unless the batch that is being published takes longer than the driver's grace",
}
"""What becomes of the parts of a job that stops between two batches."""


@shared
def stop_job(
    context: typer.Context,
    job: Job,
    savepoint: Annotated[
        str | None, typer.Option(help="Make a savepoint of this name, of the state after the last batch.")
    ] = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    within: Within = 120.0,
) -> None:
    """Stop a job: its driver finishes its batch and resigns, and none leads until milepost jobs start.

    The driver may run anywhere, and ends as by SIGTERM. Standbys, and drivers that are started again, wait. A repeated
    stop is answered as the first. If the driver has not resigned in time, the exit code is 1, and the wish stays.
    """
    options: Options = context.obj
    with options.client() as client:
        before = client.job_info(job)
        if dry_run:
            what = f"{_who(before)} would finish its batch and resign" if _leads(before) else f"no driver leads {job}"
            made = "" if savepoint is None else f", and the savepoint {savepoint} would be made"
            _say(context, f"{what}{made}; none would lead until milepost jobs start {job}", before, savepoint)
            return
        asked = client.stop_job(job, savepoint=savepoint, reason=reason)
        if asked.epoch.session is not None:
            wait_until_ended(client, asked, within)
            if savepoint is not None:  # if the driver died before it resigned, the repeated stop makes the savepoint
                client.stop_job(job, savepoint=savepoint, reason=reason)
        now = client.job_info(job)
    made = "" if savepoint is None else f", and the savepoint {savepoint} is its state"
    _say(context, f"{job} is stopped after batch {_batch(now)}{made}; milepost jobs start {job}", now, savepoint)


@shared
def hand_over_job(
    context: typer.Context,
    job: Job,
    force: Annotated[
        bool, typer.Option("--force", help="Also if no driver stands by: the next one to ask leads.")
    ] = False,
    to: Annotated[
        str | None, typer.Option(metavar="<holder>", help="The standby that shall lead: its holder, or its session.")
    ] = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    within: Within = 120.0,
) -> None:
    """Hand a job over to a standby: its driver finishes its batch and resigns, and the standby leads at once.

    The driver may run anywhere, and ends as by SIGTERM. It is refused if no driver stands by, or not the one that --to
    names. If no other driver leads in time, or another than that one, the exit code is 1.
    """
    if to is not None and force:
        raise typer.BadParameter("names a standby, so --force does not go with it", param_hint="'--to'")
    options: Options = context.obj
    with options.client() as client:
        before = client.job_info(job)
        if not _leads(before):
            _fail(f"no driver leads {job}, so there is nothing to hand over: it is {before.state}")
        if dry_run:
            named = [each for each in before.standbys if to in (None, each.holder, each.session)]
            standby = next((each.holder or each.session for each in named), None)
            if standby is None and not force:
                called = "" if to is None else f" called {to}"
                _fail(f"no driver{called} stands by for {job}, so that none would lead")
            _say(context, f"{_who(before)} would finish its batch and resign, and {standby or 'the next'} lead", before)
            return
        why = reason or ("" if to is None else f"to {to}")
        asked = client.hand_over_job(job, epoch=before.epoch.epoch, force=force, to=to, reason=why)
        if asked.wish is not None and asked.wish.kind == "stop":
            _fail(f"{job} was stopped by {asked.wish.person}, so that no standby may lead: milepost jobs start {job}")
        began = time.monotonic()
        if asked.epoch.session is not None and asked.epoch.epoch == before.epoch.epoch:
            wait_until_ended(client, asked, within)
        leads = _successor(client, job, before.epoch.epoch, began + within)
        if leads is None:
            _fail(f"{before.epoch.holder} does not lead {job} any more, but none led within {within:g} s")
        if to not in (None, leads.holder, leads.session):
            _fail(f"{leads.holder} leads {job} under epoch {leads.epoch}: {to} did not ask for it in time")
        now = client.job_info(job)
    seconds = time.monotonic() - began
    _say(context, f"{leads.holder} leads {job} under epoch {leads.epoch}, after {seconds:.1f} s", now)


@shared
def start_job(
    context: typer.Context,
    job: Job,
    reason: Reason = "",
    dry_run: DryRun = False,
    within: Within = 30.0,
) -> None:
    """Start a stopped job: a driver that stands by leads at once, and without one the next driver that is started.

    If drivers stand by, the command waits until one leads.
    """
    options: Options = context.obj
    with options.client() as client:
        before = client.job_info(job)
        waiting = next((each.holder or each.session for each in before.standbys), None)
        stopped = before.wish if before.wish is not None and before.wish.kind == "stop" else None
        if dry_run:
            if stopped is None:
                _say(context, f"{job} is not stopped: it is {before.state}", before)
                return
            whose = (
                f"{waiting} would lead" if waiting else "no driver stands by: the next one that is started would lead"
            )
            _say(context, f"{job} was stopped by {stopped.person}; {whose}", before)
            return
        began = time.monotonic()
        client.start_job(job, reason=reason)
        if stopped is None:
            _say(context, f"{job} was not stopped, and nothing changes: it is {before.state}", before)
            return
        leads = _successor(client, job, 0, began + (within if waiting else min(within, STANDBY_SECONDS)))
        now = client.job_info(job)
    led = "no driver stands by: the next one that is started leads" if leads is None else f"{leads.holder} leads"
    _say(context, f"{job} is started; {led}", now)


def wait_until_ended(client: Client, asked: JobState, within: float) -> None:
    """Wait until the driver that was asked has resigned; end the command if it has not within ``within`` seconds."""
    try:
        client.wait_for_end(asked.job, asked.epoch.epoch, timeout=within)
    except DeadlineExceeded:
        held = asked.epoch
        _fail(
            f"{held.holder} still leads {asked.job} under epoch {held.epoch}, after {within:g} s, and the wish stays. "
            "The driver may be in a long batch, or of a release that does not know wishes. SIGTERM ends it as well; "
            f"milepost sessions end {held.session} ends its epoch at once; its batch is run again then"
        )


def _successor(client: Client, job: str, epoch: int, deadline: float) -> Epoch | None:
    """Wait until a driver leads under a later epoch than ``epoch``; None if none does before ``deadline``
    (monotonic).
    """
    store = client.store(job)
    while True:
        found = store.current_epoch()
        if found.session is not None and found.epoch > epoch:
            return found
        if time.monotonic() >= deadline:
            return None
        time.sleep(_LOOK_SECONDS)


def _leads(job: JobInfo) -> bool:
    return job.epoch.session is not None


def _who(job: JobInfo) -> str:
    return f"{job.epoch.holder}, which leads {job.job} under epoch {job.epoch.epoch},"


def _batch(job: JobInfo) -> str:
    return "-" if job.batch is None else str(job.batch.batch)


def _say(context: typer.Context, sentence: str, job: JobInfo, savepoint: str | None = None) -> None:
    """Report what was done or would be done, and what becomes of the parts of the job."""
    about: dict[str, Any] = {
        "job": job.job,
        "job_state": job.state,
        "epoch": job.epoch.epoch,
        "holder": job.epoch.holder,
        "standbys": job.standby_count,
        "batch": None if job.batch is None else job.batch.batch,
        "savepoint": savepoint,
    }
    becomes = "".join(f"\n  {part}: {what}" for part, what in _BECOMES.items())
    report(context, f"{sentence}{becomes}", **about, **_BECOMES)


def _fail(text: str) -> NoReturn:
    typer.echo(text, err=True)
    raise typer.Exit(ExitCode.REFUSED)

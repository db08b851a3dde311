"""The command ``milepost jobs restore``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from milepost.cli.acting import changing, in_the_way
from milepost.cli.files import Within
from milepost.cli.jobs import AsOf, DryRun, Job, Named, OfBatch
from milepost.cli.options import Options, shared
from milepost.cli.output import report
from milepost.cli.stopping import wait_until_ended
from milepost.client import Client
from milepost.restoring import JobRestore, chosen, planned, restore
from milepost.source_offsets import TopicOffsets, parsed

Offsets = Annotated[
    str | None,
    typer.Option(
        metavar="<json>",
        help="Go on at these offsets of a topic of Kafka that was made anew, such as "
        '{"flights": {"0": 0}}, with each partition.',
    ),
]
Stop = Annotated[
    bool,
    typer.Option("--stop", help="Stop the driver that leads first, in order. The job stays stopped."),
]


@shared
def restore_job(
    context: typer.Context,
    job: Job,
    snapshot: Named = None,
    batch: OfBatch = None,
    as_of: AsOf = None,
    offsets: Offsets = None,
    stop: Stop = False,
    dry_run: DryRun = False,
    within: Within = 600.0,
) -> None:
    """Restore a job to a snapshot: files, job record, published output and managed state go back together.

    The command needs the job's epoch, so no driver may lead the job; --stop stops it first. It is one commit, and one
    more with --offsets. The present state is kept as a snapshot; a restore to that one undoes this. Output that counts
    no more stays until it expires.
    """
    if sum(given is not None for given in (snapshot, batch, as_of)) != 1:
        raise typer.BadParameter("give one of SNAPSHOT, --batch and --as-of")
    going_on = None if offsets is None else _parsed(offsets)
    options: Options = context.obj
    with options.client() as client:  # planned before the campaign, so that a refused restore does not raise the epoch
        store = client.store(job)
        plan = planned(store, chosen(store.files.snapshots(), snapshot, batch, as_of), offsets=going_on, timeout=within)
        driver = ""
        if stop:
            driver = f"\n  driver: {'would be' if dry_run else 'is'} stopped, until milepost jobs start {job}"
        elif dry_run:
            driver = in_the_way(client.job_info(job))
        if stop and not dry_run:
            _stop(client, plan, within)
    if not dry_run:
        with changing(context, job, campaign=True) as opened:
            plan = restore(opened, plan.snapshot, offsets=going_on, timeout=within)
    said = f"{job} would go back to" if plan.undo is None else f"{job} is back at"
    undo = "" if plan.undo is None else f"; milepost jobs restore {job} {plan.undo} undoes it"
    becomes = "".join(f"\n  {what}: {getattr(plan, what)}" for what in ("source", "state", "output", "sink"))
    report(context, f"{said} batch {plan.batch}{undo}{becomes}{driver}", **asdict(plan))


def _stop(client: Client, plan: JobRestore, within: float) -> None:
    """Stop the job, and wait for the end of its driver. Exits if that takes longer than ``within`` seconds."""
    asked = client.stop_job(plan.job, reason=f"restore to {plan.snapshot}")
    typer.echo(f"{plan.job} is asked to stop, and stays stopped until milepost jobs start {plan.job}", err=True)
    if asked.epoch.session is not None:
        wait_until_ended(client, asked, within)


def _parsed(text: str) -> TopicOffsets:
    try:
        return parsed(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--offsets'") from error

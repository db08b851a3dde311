"""The command ``milepost jobs move``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from milepost.cli.acting import holder
from milepost.cli.jobs import Job
from milepost.cli.options import Options, shared
from milepost.cli.output import report
from milepost.moving import drop_copy, move


@shared
def move_job(
    context: typer.Context,
    job: Job,
    to: Annotated[str, typer.Option("--to", metavar="CELL", help="The cell to which the job is moved.")],
    wait: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for the end of a driver that leads.")] = 0.0,
    drop: Annotated[
        bool, typer.Option("--drop-copy", help="CELL has the job already: drop the older copy that another cell has.")
    ] = False,
) -> None:
    """Move a job to another cell, with all that the service has of it; its next epoch is above its last.

    The command needs the job's epoch, so no driver may lead the job: milepost jobs stop ends it in order. The job is in
    one cell at each moment, also if this command is killed. Then the same command, or the next driver, goes on.
    """
    options: Options = context.obj
    with options.client(direct=False) as client:
        if drop:
            dropped = drop_copy(client, job, to, holder=holder(context), wait=wait)
            said = f"{job} is in the cell {to} only: the copy in {dropped.source} is dropped"
            report(context, said, **asdict(dropped))
            return
        moved = move(client, job, to, holder=holder(context), wait=wait)
    if moved is None:
        report(context, f"{job} is in the cell {to} already", job=job, target=to)
        return
    what = f"{moved.records} records and {moved.blobs} blobs of {moved.bytes} bytes"
    report(context, f"{job} is in the cell {moved.target} now, and was in {moved.source}: {what}", **asdict(moved))

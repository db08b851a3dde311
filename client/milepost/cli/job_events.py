"""The command `events` of `jobs`: what happens to a job, an entry of its history a line."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from milepost.cli.jobs import Job, history_row
from milepost.cli.options import Options, shared
from milepost.cli.output import Form, show_each
from milepost.job_types import HistoryEntry


@shared
def show_events(
    context: typer.Context,
    job: Job,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens from now on, until interrupted.")
    ] = False,
    after: Annotated[
        str | None, typer.Option(help="With --follow, begin after the entry with this id, or after this revision.")
    ] = None,
) -> None:
    """Show what happens to a job, an entry of its history a line, the oldest first: its id, and what `history` shows.

    Without --follow, show the entries that are kept. With it, show what happens from now on, through outages and
    changes of the leader.
    """
    if after is not None and not follow:
        raise typer.BadParameter("--after goes with --follow")
    options: Options = context.obj
    with options.client() as client:
        found = client.job_events(job, after=after, existing=not follow, timeout=None if follow else 0.0)
        columns = ("id", "time", "what", "epoch", "batch", "who", "detail")
        show_each(context, (each if options.form is not Form.TABLE else _line(each) for each in found), columns)


def _line(entry: HistoryEntry) -> dict[str, Any]:
    return {"id": entry.id, **history_row(entry)}

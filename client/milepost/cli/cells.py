"""The commands of ``milepost cells``, about the deployments side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from milepost.cli.options import Options, shared
from milepost.cli.output import show_all
from milepost.cli.service import show_of_each_cell
from milepost.client import Client
from milepost.errors import InvalidRequest
from milepost.wire import Code

cells = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Show the cells, and propose which jobs to move between them."
)

_LED = ("led", "stopping")


@dataclass(frozen=True)
class Proposal:
    """A job that should be moved from the cell ``cell`` to the cell ``to``. ``state`` is that of the job."""

    job: str
    cell: str
    to: str
    state: str


@cells.command("ls")
@shared
def list_cells(context: typer.Context) -> None:
    """List the cells: the leader of each, how many jobs it has, and how many of them a driver leads."""
    options: Options = context.obj
    with options.client() as client:
        _require_cells(client)
        show_of_each_cell(context, client, _line, ("leader", "jobs", "led"))


@cells.command("balance")
@shared
def balance(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say which jobs to move. The command itself moves none, so it takes this.")
    ] = False,
) -> None:
    """Propose which jobs to move so that all cells have as many: milepost jobs move moves one.

    Jobs that no driver leads come first, since a job must be stopped for its move.
    """
    if not dry_run:
        detail = "is needed: the command only proposes, and milepost jobs move acts"
        raise typer.BadParameter(detail, param_hint="'--dry-run'")
    options: Options = context.obj
    with options.client() as client:
        _require_cells(client)
        jobs = {name: {job.job: job.state for job in one.jobs()} for name, one in client.by_cell().items()}
    show_all(context, list(proposed(jobs)), ("job", "cell", "to", "state"))


def proposed(jobs: Mapping[str, Mapping[str, str]]) -> Iterator[Proposal]:
    """Yield moves after which no cell has two jobs more than another one. ``jobs`` has the state of each job of each
    cell.
    """
    left = {
        cell: sorted(states, key=lambda job: (states[job] in _LED, job), reverse=True) for cell, states in jobs.items()
    }
    counts = {cell: len(states) for cell, states in jobs.items()}
    while True:
        fullest = max(counts, key=lambda cell: (counts[cell], cell))
        emptiest = min(counts, key=lambda cell: (counts[cell], cell))
        if counts[fullest] - counts[emptiest] < 2:
            return
        job = left[fullest].pop()
        counts[fullest], counts[emptiest] = counts[fullest] - 1, counts[emptiest] + 1
        yield Proposal(job, fullest, emptiest, jobs[fullest][job])


def _line(client: Client) -> Sequence[dict[str, object]]:
    jobs = list(client.jobs())
    led = sum(job.state in _LED for job in jobs)
    return [{"leader": client.status().leader, "jobs": len(jobs), "led": led}]


def _require_cells(client: Client) -> None:
    if "" in client.by_cell():
        detail = "there are no cells: the address is that of one deployment, not a list such as a=http://…;b=http://…"
        raise InvalidRequest(Code.INVALID_REQUEST, detail)

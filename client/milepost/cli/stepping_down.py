"""The command `step-down`, which lets another replica of the service lead."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from milepost.cli.options import Options, shared
from milepost.cli.output import report
from milepost.cli.service import of_cell, status_of_leader
from milepost.client import Client
from milepost.errors import ConnectionFailed, DeadlineExceeded, Fenced, Unavailable
from milepost.types import Status
from milepost.wire import Code

_LOOK_SECONDS = 0.1


@shared
def step_down(
    context: typer.Context,
    cell: Annotated[str | None, typer.Option(help="Of several cells, the one whose leader it is.")] = None,
    within: Annotated[float, typer.Option(min=1.0, help="Seconds that it may take until another leads.")] = 60.0,
) -> None:
    """Let another replica lead, and wait until it does.

    The leader first finishes requests in flight. If no other replica is ready, the same one leads again.
    """
    options: Options = context.obj
    with options.client() as whole:
        client = of_cell(whole, cell)
        before = status_of_leader(options, client)
        if before is None:
            raise Unavailable(Code.NO_LEADER, "nobody leads, so nobody can step down")
        term, began = before.term or 0, time.monotonic()
        try:
            client.step_down(term, timeout=within)
        except Fenced as error:  # the term is over: a first request, whose answer was lost, may have ended it
            if int(error.extras.get("current") or 0) <= term:
                raise
        leads = _successor(options, client, term, began + within)
    if leads is None:
        said = f"{before.leader} does not lead any more, but nobody led within {within:g} s"
        raise Unavailable(Code.NO_LEADER, said)
    seconds = time.monotonic() - began
    again = " again, since no other replica took the lead in time" if leads.leader == before.leader else ""
    sentence = f"{leads.leader} leads{again} at term {leads.term}, after {seconds:.1f} s"
    report(context, sentence, leader=leads.leader, term=leads.term, before=before.leader, seconds=round(seconds, 3))


def _successor(options: Options, client: Client, term: int, deadline: float) -> Status | None:
    """Wait until a replica leads at a later term than ``term``, and return its status; return None if none does before
    ``deadline`` (monotonic).
    """
    while time.monotonic() < deadline:
        try:
            status = status_of_leader(options, client)
        except (Unavailable, ConnectionFailed, DeadlineExceeded):  # the asked replica may be starting or stopping
            status = None
        if status is not None and status.leader is not None and (status.term or 0) > term:
            return status  # a leader of an older release does not name itself for a moment
        time.sleep(_LOOK_SECONDS)
    return None

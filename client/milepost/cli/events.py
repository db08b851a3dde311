"""The command `events`: what happens in a store, an event a line."""

from __future__ import annotations

from typing import Annotated

import typer

from milepost.cli.options import Options, Store, shared
from milepost.cli.output import show_each


@shared
def events(
    context: typer.Context,
    store: Store,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens from now on, until interrupted.")
    ] = False,
    after: Annotated[
        str | None, typer.Option(help="With --follow, begin after the event with this id, or after this revision.")
    ] = None,
) -> None:
    """Show what happens in a store, an event a line: its id, its type, and what it is about.

    Without --follow, show an event for all that exists now: the handles, the epoch, the snapshots and the savepoints.
    With it, show what happens from now on, through outages and changes of the leader. An event that the command made
    from the difference between two readings has no id.
    """
    if after is not None and not follow:
        raise typer.BadParameter("--after goes with --follow")
    options: Options = context.obj
    with options.client() as client:
        found = client.store(store).watch(after=after, existing=not follow, timeout=None if follow else 0.0)
        columns = ("id", "type", "about")
        show_each(context, ({**vars(each), "about": dict(each.data)} for each in found), columns)

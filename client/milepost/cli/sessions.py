"""The commands of ``milepost sessions``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from milepost.cli.options import Options, shared
from milepost.cli.output import show, show_all
from milepost.client import Client
from milepost.errors import SessionLost
from milepost.types import SessionInfo

sessions = typer.Typer(rich_markup_mode=None)


@sessions.callback(invoke_without_command=True)
@shared
def holding(
    context: typer.Context,
    store: Annotated[str | None, typer.Option(help="Only sessions that hold something of this store.")] = None,
) -> None:
    """List the living sessions, with the number of locks and the epochs that each holds."""
    if context.invoked_subcommand is not None:
        return
    options: Options = context.obj
    with options.client() as client:
        if store is None:
            columns = ("session", "holder", "ttl", "expires_in", "locks", "locked_stores", "epochs")
            show_all(context, client.sessions(), columns)
        else:
            show_all(context, _holding(client, store), ("session", "holder", "ttl", "expires_in", "locks"))


@sessions.command("show")
@shared
def show_session(context: typer.Context, session: Annotated[str, typer.Argument(help="Id of the session.")]) -> None:
    """Show one session."""
    options: Options = context.obj
    with options.client() as client:
        show(context, client.session_info(session))


def _holding(client: Client, store: str) -> Iterator[SessionInfo]:
    looked_at = client.store(store)
    found = {session for handle in looked_at.get_all_handles() for session in handle.locks}
    epoch = looked_at.current_epoch()
    if epoch.session is not None:
        found.add(epoch.session)
    for session in sorted(found):
        try:
            yield client.session_info(session)
        except SessionLost:
            continue  # it ended since then

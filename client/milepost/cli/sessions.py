"""The commands about sessions and their locks: those of ``milepost sessions``, `lock` and `release`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from milepost.cli.acting import InSession, continued, holder
from milepost.cli.options import Name, Options, Store, shared
from milepost.cli.output import report, show, show_all
from milepost.cli.service import show_of_each_cell
from milepost.client import Client
from milepost.errors import SessionLost
from milepost.types import Handle, SessionInfo

sessions = typer.Typer(rich_markup_mode=None)


@sessions.callback(invoke_without_command=True)
@shared
def holding(
    context: typer.Context,
    store: Annotated[str | None, typer.Option(help="Only sessions that hold something of this store.")] = None,
) -> None:
    """List the living sessions, with the number of locks and the epochs of each."""
    if context.invoked_subcommand is not None:
        return
    options: Options = context.obj
    with options.client() as client:
        if store is None:
            columns = ("session", "holder", "ttl", "expires_in", "locks", "locked_stores", "epochs")
            show_of_each_cell(context, client, lambda one: one.sessions(), columns)
        else:
            show_all(context, _holding(client, store), ("session", "holder", "ttl", "expires_in", "locks"))


@sessions.command("show")
@shared
def show_session(context: typer.Context, session: Annotated[str, typer.Argument(help="Id of the session.")]) -> None:
    """Show one session."""
    options: Options = context.obj
    with options.client() as client:
        show(context, client.session_info(session))


@sessions.command("end")
@shared
def end_session(context: typer.Context, session: Annotated[str, typer.Argument(help="Id of the session.")]) -> None:
    """End a session, for a driver that does not end by itself.

    Its locks end, and its epochs become free. The driver publishes nothing more; the batch that it runs is run again.
    """
    options: Options = context.obj
    with options.client() as client:
        client.end_session(session)
    report(context, f"session {session} has ended", session=session)


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
            continue  # the session has ended since its lock was listed


@shared
def lock(
    context: typer.Context,
    store: Store,
    name: Name,
    session: InSession = None,
    ttl: Annotated[
        float, typer.Option(min=1.0, max=3600.0, help="Seconds that a session lives which begins here.")
    ] = 600.0,
) -> None:
    """Lock a handle, so that no other session can remove it.

    Without --session the command begins a session, which lives on for --ttl seconds. The end of the session releases
    the lock, and so does the command release. The output is the session that holds the lock, and the record of the
    handle.
    """
    options: Options = context.obj
    with options.client() as client:
        if session is not None:
            with continued(client.of_job(store), session) as opened:
                _show(context, opened.id, opened.store(store).get_and_lock(name))
            return
        with client.of_job(store).session(holder(context), ttl) as begun:
            locked = begun.store(store).get_and_lock(name)
            begun.detach()
        _show(context, begun.id, locked)


@shared
def release(
    context: typer.Context,
    store: Store,
    name: Name,
    session: Annotated[str, typer.Option(help="Id of the session that holds the lock; it lives on.")],
) -> None:
    """Release the lock of a session on a handle."""
    options: Options = context.obj
    with options.client() as client, continued(client.of_job(store), session) as opened:
        held = f"{store}/{name}" in client.session_info(session).locks
        opened.store(store).release(name)
    sentence = f"the lock of session {session} on {name} is released"
    if not held:
        sentence = f"session {session} held no lock on {name} by itself, and holds none now"
    report(context, sentence, session=session, name=name, held=held)


def _show(context: typer.Context, session: str, locked: Handle) -> None:
    show(context, {"session": session, **asdict(locked)})

"""The commands about locks: `lock` and `release`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from milepost.cli.acting import InSession, continued, holder
from milepost.cli.arguments import Name, Store
from milepost.cli.options import Options, shared
from milepost.cli.output import report, show
from milepost.types import Handle


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
    """Lock a handle, so that nobody removes it.

    Without --session a session begins, which lives on for --ttl seconds. Its end releases the lock, and so does the
    command release. What is shown is the session that holds the lock, and the record of the handle.
    """
    options: Options = context.obj
    with options.client() as client:
        if session is not None:
            with continued(client, session) as opened:
                _show(context, opened.id, opened.store(store).get_and_lock(name))
            return
        with client.session(holder(context), ttl) as begun:
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
    with options.client() as client, continued(client, session) as opened:
        held = f"{store}/{name}" in client.session_info(session).locks
        opened.store(store).release(name)
    sentence = f"the lock of session {session} on {name} is released"
    if not held:
        sentence = f"session {session} held no lock on {name} by itself, and holds none now"
    report(context, sentence, session=session, name=name, held=held)


def _show(context: typer.Context, session: str, locked: Handle) -> None:
    show(context, {"session": session, **asdict(locked)})

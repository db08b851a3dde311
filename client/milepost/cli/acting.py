"""Gives a command the session and the epoch with which it changes a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from milepost.cli.options import Options
from milepost.client import Client
from milepost.drivers.environment import MOST_CHARACTERS, default_holder
from milepost.errors import EpochHeld, MilepostError
from milepost.job_types import JobInfo
from milepost.session import Session
from milepost.store import StateHandleStore

_SESSION_SECONDS = 30.0
_LONG_SESSION_SECONDS = 60.0

InSession = Annotated[
    str | None,
    typer.Option(
        "--session",
        help="Id of a living session to act for; it lives on. Otherwise the command has one that ends with it.",
    ),
]
UnderEpoch = Annotated[int | None, typer.Option("--epoch", min=1, help="Act under this epoch, which its driver holds.")]
Campaign = Annotated[
    bool,
    typer.Option(
        "--campaign",
        help="Have an epoch for as long as the command takes; refused while a driver leads the store.",
    ),
]


@contextmanager
def changing(
    context: typer.Context,
    store: str,
    session: str | None = None,
    epoch: int | None = None,
    campaign: bool = False,
    *,
    begin: bool = False,
) -> Iterator[StateHandleStore]:
    """Yield a store that the command may change; with ``begin``, the store may begin by that.

    ``session`` is the id of a living session to use; without it, the command opens a session that ends after the block.
    The changes are under ``epoch`` or, with ``campaign``, under a new epoch that ends after the block.
    """
    if campaign and epoch is not None:
        raise typer.BadParameter("has an epoch of its own, so --epoch does not go with it", param_hint="'--campaign'")
    options: Options = context.obj
    with (
        options.client() as whole,
        _session(context, whole.of_job(store, begin=begin), session) as opened,
    ):
        changed = opened.store(store)
        if epoch is not None:
            yield changed.under(epoch)
        elif campaign:
            with led(changed):
                yield changed
        else:
            yield changed


@contextmanager
def changing_several(context: typer.Context, client: Client) -> Iterator[Callable[[str], StateHandleStore]]:
    """Yield a function that opens a store which the command may change, and which may begin by that. The command has
    one session in each cell of such a store; it ends after the block.
    """
    with ExitStack() as stack:
        sessions: dict[str, Session] = {}

        def opened(store: str) -> StateHandleStore:
            one = client.of_job(store, begin=True)
            if one.cell not in sessions:
                sessions[one.cell] = stack.enter_context(one.session(holder(context), _LONG_SESSION_SECONDS))
            return sessions[one.cell].store(store)

        yield opened


@contextmanager
def continued(client: Client, session: str) -> Iterator[Session]:
    """Yield a session that is alive already. The session lives on after the block, with its holder and TTL unchanged.

    Raises `SessionLost` if the session has ended.
    """
    known = client.session_info(session)
    opened = client.session(known.holder, known.ttl, session)
    try:
        yield opened
    finally:
        opened.detach()


@contextmanager
def led(store: StateHandleStore, wait: float = 30.0) -> Iterator[None]:
    """Campaign for the epoch of a store, hold it during the block, and resign afterwards. A job that a person has
    stopped may be changed, and stays stopped. If another session holds the epoch, this is said on stderr. Raises
    `EpochHeld` if it does so for ``wait`` more seconds.
    """
    try:
        store.campaign(0, if_stopped=True)
    except EpochHeld as held:
        typer.echo(
            f"{held.holder} leads {store.name} under epoch {held.epoch}: waiting {wait:g} s for its end; "
            f"milepost jobs stop {store.name} ends it in order",
            err=True,
        )
        store.campaign(wait, if_stopped=True)
    try:
        yield
    finally:
        try:
            store.resign()
        except MilepostError as error:  # not raised, since it would hide an error of the block
            typer.echo(f"the epoch could not be given up, and ends with its session: {error}", err=True)


def in_the_way(job: JobInfo) -> str:
    """Return a line that names the driver that leads a job, and how to stop it; nothing if none does."""
    if job.epoch.session is None:
        return ""
    return (
        f"\n  driver: {job.epoch.holder} leads {job.job} under epoch {job.epoch.epoch}, so this would be refused: "
        f"milepost jobs stop {job.job} ends it in order"
    )


def holder(context: typer.Context) -> str:
    """Return the holder of the command's session, by which ``milepost sessions`` and the history of a job show it: who
    runs which command, such as ``anna@laptop:4711 (milepost put)``.
    """
    group = context.parent.info_name if context.parent is not None and context.parent.parent is not None else None
    command = " ".join(filter(None, ("milepost", group, context.info_name)))
    return f"{default_holder()[: MOST_CHARACTERS - len(command) - 3]} ({command})"


@contextmanager
def _session(context: typer.Context, client: Client, session: str | None) -> Iterator[Session]:
    if session is not None:
        with continued(client, session) as opened:
            yield opened
        return
    with client.session(ttl=_SESSION_SECONDS, holder=holder(context)) as opened:
        yield opened

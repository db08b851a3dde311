"""The commands of ``milepost files``: what is kept of the files of a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from milepost.cli.options import Options
from milepost.cli.output import show, show_all
from milepost.client import Client
from milepost.store import StateHandleStore
from milepost.types import Cut

_SESSION_SECONDS = 30.0

files = typer.Typer(no_args_is_help=True, help="Show, verify and keep the files of a job.")

Job = Annotated[str, typer.Argument(help="Name of the job's store.")]
Within = Annotated[float, typer.Option(min=0.1, help="Seconds that it may take.")]


@dataclass(frozen=True)
class Snapshot:
    """A line about a cut or a pin; ``snapshot`` is its directory in the job's ``.snapshot``."""

    snapshot: str
    directory: str
    batch: int
    revision: int
    intact: bool | None


@files.command()
def cuts(context: typer.Context, store: Job) -> None:
    """List the cuts and pins that are kept, by the names of their snapshots."""
    with _client(context) as client:
        kept = client.store(store).files.cuts()
        lines = [_line(cut.snapshot, cut) for cut in kept.cuts] + [_line(pin.snapshot, pin.cut) for pin in kept.pins]
        show_all(context, lines, ("snapshot", "directory", "batch", "revision"))


@files.command()
def verify(
    context: typer.Context,
    store: Job,
    digests: Annotated[bool, typer.Option(help="Read all bytes and compare their digests.")] = False,
    within: Within = 600.0,
) -> None:
    """Look whether the bytes of all files are there; the exit status is 1 if any are not, of now or of what is kept."""
    with _client(context) as client:
        found = client.store(store).files.verify(digests=digests, timeout=within)
    show(context, found)
    if found.damaged_count:
        raise typer.Exit(1)


@files.command()
def pin(
    context: typer.Context,
    store: Job,
    name: Annotated[str, typer.Argument(help="Name of the pin.")],
    revision: Annotated[int, typer.Option(min=0, help="Revision of the cut; 0: the newest.")] = 0,
) -> None:
    """Keep a cut under a name: a savepoint."""
    with _store(context, store) as opened:
        typer.echo(f"{name} keeps the cut at revision {opened.files.pin(name, revision)}")


@files.command()
def unpin(context: typer.Context, store: Job, name: Annotated[str, typer.Argument(help="Name of the pin.")]) -> None:
    """Keep a cut no longer for the sake of its name."""
    with _store(context, store) as opened:
        opened.files.unpin(name)


@files.command("roll-back")
def roll_back(
    context: typer.Context,
    store: Job,
    revision: Annotated[int, typer.Argument(min=1, help="Revision of a cut or a pin.")],
) -> None:
    """Let the files be those of a cut again. It needs the job's epoch, so no driver may lead the job."""
    with _store(context, store) as opened, _led(opened):
        typer.echo(f"the files are those of revision {opened.files.roll_back(revision)} again")


@files.command()
def clone(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="Name of the job to be cloned.")],
    snapshot: Annotated[str, typer.Argument(help="Name of a pin, or @ and the revision of a cut.")],
    store: Annotated[str, typer.Argument(help="Name of the job that begins, which must have no files.")],
    within: Within = 600.0,
) -> None:
    """Begin a job with copies of the files that a snapshot of another one shows."""
    with _store(context, store) as opened, _led(opened):
        copied = opened.files.clone(source, snapshot, timeout=within)
        typer.echo(f"{store} begins with {copied.files} files of {copied.bytes} bytes")


def _line(snapshot: str, cut: Cut) -> Snapshot:
    return Snapshot(snapshot, cut.directory, cut.batch, cut.revision, cut.intact)


@contextmanager
def _client(context: typer.Context) -> Iterator[Client]:
    options: Options = context.obj
    with options.client() as client:
        yield client


@contextmanager
def _store(context: typer.Context, name: str) -> Iterator[StateHandleStore]:
    with _client(context) as client, client.session(ttl=_SESSION_SECONDS, holder="milepost files") as session:
        yield session.store(name)


@contextmanager
def _led(store: StateHandleStore) -> Iterator[None]:
    """Have the epoch of the job meanwhile. Raises `EpochHeld` if a driver leads it."""
    store.campaign()
    try:
        yield
    finally:
        store.resign()

"""The commands of ``milepost``. Each prints a table, or JSON with ``--json``; an error goes to stderr, with exit status
1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from milepost.cli.files import files
from milepost.cli.options import Options
from milepost.cli.output import show, show_all
from milepost.cli.run import RUN_SETTINGS, run
from milepost.client import Client

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Show what a Milepost service holds, and run Spark jobs."
)
sessions = typer.Typer(no_args_is_help=True, help="Show sessions.")
app.add_typer(sessions, name="sessions")
app.add_typer(files, name="files")
app.command("run", context_settings=RUN_SETTINGS)(run)

Store = Annotated[str, typer.Argument(help="Name of the store.")]


@app.callback()
def settings(
    context: typer.Context,
    url: Annotated[
        str,
        typer.Option(
            "--url", "-u", envvar="MILEPOST_URL", help="Address of the service, or several with commas between them."
        ),
    ] = "http://127.0.0.1:7070",
    token: Annotated[
        str | None,
        typer.Option(
            envvar="MILEPOST_TOKEN", help="Bearer token; the environment variable is safer.", show_default=False
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Timeout of one call in seconds.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Read the options that all commands share."""
    urls = tuple(part.strip() for part in url.split(",") if part.strip())
    context.obj = Options(urls, token, timeout, as_json)


@app.command()
def status(context: typer.Context) -> None:
    """Show the status of one replica, and the leader that it knows."""
    with _client(context) as client:
        show(context, client.status())


@app.command()
def stores(context: typer.Context) -> None:
    """List all stores."""
    with _client(context) as client:
        show_all(context, client.stores(), ("store", "handles", "revision", "epoch"))


@app.command()
def handles(context: typer.Context, store: Store) -> None:
    """List the handles of a store."""
    with _client(context) as client:
        columns = ("name", "version", "size", "updated", "epoch", "locks", "labels", "removing")
        show_all(context, client.store(store).get_all_handles(), columns)


@app.command()
def get(
    context: typer.Context,
    store: Store,
    name: Annotated[str, typer.Argument(help="Name of the handle.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write the state to, once the state is verified."),
    ] = None,
) -> None:
    """Show the record of a handle; with -o also write its state, verified, to a file (``-``: standard output)."""
    with _client(context) as client:
        handle = client.store(store).get(name)
        if output is None:
            show(context, handle)
            return
        with client.store(store).open(name, handle.version) as chunks:
            if str(output) == "-":
                _write(chunks, sys.stdout.buffer.write)
                return
            part = output.with_name(output.name + ".part")
            with part.open("wb") as file:
                _write(chunks, file.write)
            part.replace(output)
        typer.echo(f"{handle.size} bytes, sha256 {handle.sha256}, version {handle.version}")


@app.command()
def epoch(context: typer.Context, store: Store) -> None:
    """Show which driver leads a store."""
    with _client(context) as client:
        show(context, client.store(store).current_epoch())


@sessions.command("show")
def show_session(context: typer.Context, session: Annotated[str, typer.Argument(help="Id of the session.")]) -> None:
    """Show one session."""
    with _client(context) as client:
        show(context, client.session_info(session))


def _client(context: typer.Context) -> AbstractContextManager[Client]:
    options: Options = context.obj
    return options.client()


def _write(chunks: Iterable[bytes], write: Callable[[bytes], object]) -> None:
    for chunk in chunks:
        write(chunk)

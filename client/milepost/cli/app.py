"""The command ``milepost``, composed of all its subcommands.

Each subcommand prints a table, JSON or YAML on stdout, and errors on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer

import milepost
from milepost.cli.backup.commands import backup, restore
from milepost.cli.cells import cells
from milepost.cli.config import config
from milepost.cli.contexts import Given
from milepost.cli.copies import clone_job, diff_jobs, drop_job
from milepost.cli.events import events
from milepost.cli.expire import expire
from milepost.cli.files import files
from milepost.cli.fsck import fsck
from milepost.cli.job_events import show_events
from milepost.cli.jobs import jobs
from milepost.cli.moves import move_job
from milepost.cli.options import (
    DEFAULT_TIMEOUT,
    AsJson,
    Ca,
    Cert,
    Context,
    Key,
    Options,
    OutputForm,
    Timeout,
    Token,
    TokenPath,
    Url,
)
from milepost.cli.restores import restore_job
from milepost.cli.sessions import lock, release, sessions
from milepost.cli.show import epochs, ls, show_handle, status
from milepost.cli.states import get, put, rm
from milepost.cli.stepping_down import step_down
from milepost.cli.stopping import hand_over_job, start_job, stop_job

if sys.platform != "win32":
    from milepost.cli.run import RUN_SETTINGS, run
else:
    RUN_SETTINGS: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True}

    def run() -> None:
        """Run a Spark job, one driver at a time: not on Windows, which lacks the process groups that this needs."""
        typer.echo("milepost run needs POSIX: Windows has no process groups, by which all of a job is ended", err=True)
        raise typer.Exit(125)  # the exit code by which `milepost run` reports its own failures


@cache
def root_command() -> Callable[[], None]:
    """Return the function that parses `sys.argv` and runs what it says.

    A process that runs several commands makes it once: that takes a third of a second.
    """
    return typer.main.get_command(application())


@cache
def application() -> typer.Typer:
    """Return the command with all its subcommands, in the order of its help.

    It is made once, since it adds commands to the groups of other modules. Rich markup is turned off, so that help is
    plain text. An unexpected error shows no values of variables, since one of them is the token.
    """
    app = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Show and change what a Milepost service holds, and run Spark jobs.",
        epilog="The options of the service and of the output may also stand behind a command.",
    )
    app.callback()(_settings)
    for command in (status, ls):
        app.command()(command)
    app.command("show")(show_handle)
    for command in (get, put, rm, lock, release, epochs, events, expire, backup, restore, fsck, step_down):
        app.command()(command)
    for name, command in (
        ("events", show_events),
        ("restore", restore_job),
        ("clone", clone_job),
        ("diff", diff_jobs),
        ("drop", drop_job),
        ("move", move_job),
        ("stop", stop_job),
        ("hand-over", hand_over_job),
        ("start", start_job),
    ):
        jobs.command(name)(command)
    app.add_typer(sessions, name="sessions")
    app.add_typer(jobs, name="jobs")
    app.add_typer(cells, name="cells")
    app.add_typer(files, name="files")
    app.add_typer(config, name="config")
    app.command("run", context_settings=RUN_SETTINGS)(run)
    return app


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"milepost {milepost.__version__}")
        raise typer.Exit


def _settings(
    context: typer.Context,
    context_name: Context = None,
    url: Url = None,
    token: Token = None,
    token_file: TokenPath = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    form: OutputForm = None,
    as_json: AsJson = False,
    version: Annotated[  # noqa: ARG001 - the callback handles this option
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Read the options that all commands share, and note which of them came from the environment."""
    given: dict[str, Any] = {
        "context_name": context_name,
        "url": url,
        "token": token,
        "token_file": token_file,
        "ca": ca,
        "cert": cert,
        "key": key,
    }
    of_environment = {name: given.pop(name) for name in list(given) if _is_of_environment(context, name)}
    environment = Given(context=of_environment.pop("context_name", None), **of_environment)
    context.obj = Options(environment=environment).but(timeout=timeout, form=form, as_json=as_json, **given)


def _is_of_environment(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "ENVIRONMENT"

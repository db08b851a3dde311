"""The commands of ``milepost config``, which manage contexts: the named services that commands work with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from milepost.cli.contexts import CONTEXTS, CURRENT, TOKEN, TOKEN_FILE, Config, ConfigError, ContextFile
from milepost.cli.errors import ExitCode, asking, say
from milepost.cli.options import showing
from milepost.cli.output import Form, report, show_all
from milepost.core.calls.replicas import Replicas
from milepost.drivers.environment import addresses_in
from milepost.wire import NAME, NAME_RULE

config = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(help="Name of the context.")]
_REDACTED = "REDACTED"


@dataclass(frozen=True)
class Line:
    """A line of ``milepost config get-contexts``. ``token`` says where the token of the context is stored: in the file
    of contexts, or in the file whose path it is; None if the context has no token.
    """

    current: bool
    name: str
    url: str
    ca: str | None
    cert: str | None
    token: str | None


@config.callback()
@showing
def about_config(context: typer.Context) -> None:
    """Manage contexts, the named services that commands work with.

    The file is ~/.config/milepost/config.yaml, or that of MILEPOST_CONFIG.
    """


@config.command("set-context")
@showing
def set_context(
    context: typer.Context,
    name: Name,
    url: Annotated[str | None, typer.Option("--url", "-u", help="Address of the service, or several.")] = None,
    ca: Annotated[Path | None, typer.Option("--ca", help="File of the authorities of its certificate (PEM).")] = None,
    cert: Annotated[Path | None, typer.Option("--cert", help="File of the certificate to show (PEM).")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="File of its key (PEM).")] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the bearer token, which is read each time.")
    ] = None,
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read the bearer token from standard input, and keep it here.")
    ] = False,
) -> None:
    """Make a context, or change the given settings of one. The first one becomes the current one."""
    if not NAME.match(name):
        raise typer.BadParameter(f"not a valid name for a context: {name!r} ({NAME_RULE})", param_hint="'name'")
    if token_stdin and token_file is not None:
        raise typer.BadParameter("is one place of the token, and --token-file another", param_hint="'--token-stdin'")
    if url is not None:
        _check_addresses(url)
    members: dict[str, str] = {"url": url} if url is not None else {}
    files = {"ca": ca, "cert": cert, "key": key, TOKEN_FILE: token_file}
    members |= {member: str(path.expanduser().absolute()) for member, path in files.items() if path is not None}
    if token_stdin:
        members[TOKEN] = _token_from_stdin()

    def edit(document: dict[str, Any]) -> None:
        contexts = document[CONTEXTS] = document.get(CONTEXTS) or {}
        if name not in contexts and url is None:
            raise ConfigError(f"there is no context {name!r} yet: give its --url")
        if not contexts:
            document[CURRENT] = name
        before = {key: value for key, value in contexts.get(name, {}).items() if not _is_replaced(key, members)}
        contexts[name] = {**before, **members}

    _change(edit)
    report(context, f"context {name} is set", name=name)


@config.command("use-context")
@showing
def use_context(context: typer.Context, name: Name) -> None:
    """Make a context the current one."""

    def edit(document: dict[str, Any]) -> None:
        if name not in (document.get(CONTEXTS) or {}):
            raise ConfigError(f"there is no context {name!r}")
        document[CURRENT] = name

    _change(edit)
    report(context, f"context {name} is the current one", name=name)


@config.command("get-contexts")
@showing
def get_contexts(context: typer.Context) -> None:
    """List the contexts."""
    found = _read()
    lines = [
        Line(
            current=name == found.current,
            name=name,
            url=members.get("url", ""),
            ca=members.get("ca"),
            cert=members.get("cert"),
            token="in the file of contexts" if TOKEN in members else members.get(TOKEN_FILE),
        )
        for name, members in found.contexts.items()
    ]
    show_all(context, lines, ("name", "current", "url", "ca", "cert", "token"))


@config.command("current-context")
@showing
def current_context(context: typer.Context) -> None:
    """Show the name of the current context."""
    found = _read()
    if found.current is None:
        raise _ended(ConfigError(f"there is no current context in {found.path}"))
    report(context, found.current, name=found.current)


@config.command("delete-context")
@showing
def delete_context(context: typer.Context, name: Name) -> None:
    """Delete a context. If it was the current one, there is no current context then."""

    def edit(document: dict[str, Any]) -> None:
        contexts = document.get(CONTEXTS) or {}
        if name not in contexts:
            raise ConfigError(f"there is no context {name!r}")
        del contexts[name]
        if document.get(CURRENT) == name:
            del document[CURRENT]

    _change(edit)
    report(context, f"context {name} is deleted", name=name)


@config.command()
@showing
def view(context: typer.Context, raw: Annotated[bool, typer.Option("--raw", help="Show tokens, too.")] = False) -> None:
    """Show the file of contexts, as YAML or JSON, with REDACTED in place of tokens."""
    document = dict(_read().document)
    contexts = {
        name: {**members, **({TOKEN: _REDACTED} if TOKEN in members and not raw else {})}
        for name, members in (document.get(CONTEXTS) or {}).items()
    }
    document |= {CONTEXTS: contexts} if contexts else {}
    if context.obj.form is Form.TABLE:
        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    else:
        report(context, "", **document)


def _is_replaced(member: str, given: dict[str, str]) -> bool:
    """Return whether the settings ``given`` for a context remove its present setting ``member``.

    A context has either a token or a token file, so each of them replaces the other. A key belongs to a certificate, so
    a new certificate removes the old key.
    """
    if member in (TOKEN, TOKEN_FILE):
        return TOKEN in given or TOKEN_FILE in given
    return member == "key" and "cert" in given


def _token_from_stdin() -> str:
    token = _typed_token() if sys.stdin.isatty() else sys.stdin.readline()
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise typer.BadParameter("needs a token of printable ASCII on standard input", param_hint="'--token-stdin'")
    return token


def _typed_token() -> str:
    with asking():
        return str(typer.prompt("token", hide_input=True, err=True))


def _check_addresses(url: str) -> None:
    try:
        Replicas(addresses_in(url))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--url'") from error


def _read() -> Config:
    with _errors_end_the_command():
        found = ContextFile.of_user(os.environ).read()
    for warning in found.warnings():
        typer.echo(f"warning: {warning}", err=True)
    return found


def _change(edit: Callable[[dict[str, Any]], None]) -> None:
    with _errors_end_the_command():
        ContextFile.of_user(os.environ).change(edit)


@contextmanager
def _errors_end_the_command() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise _ended(error) from error


def _ended(error: ConfigError) -> typer.Exit:
    say(error)
    return typer.Exit(ExitCode.REFUSED)

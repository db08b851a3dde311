"""The options and arguments that several commands share: those of the connection, and those of the output.

The options may be given before or after the name of a command. Those after it take precedence.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from milepost.cli.contexts import DEFAULT_URL, ConfigError, ContextFile, Given, Reached, reached
from milepost.cli.errors import errors_end_the_command
from milepost.cli.output import Form
from milepost.client import Client
from milepost.core.calls.credentials import Token as GivenToken
from milepost.core.direct import DIRECT_ABOVE
from milepost.drivers.connections import Verify, trusting
from milepost.drivers.environment import TOKEN, TOKEN_FILE, URL

Store = Annotated[str, typer.Argument(help="Name of the store.")]
Name = Annotated[str, typer.Argument(help="Name of the handle.")]
Stores = Annotated[
    list[str] | None,
    typer.Option("--store", metavar="PATTERN", help="Only these stores; * and ? stand for any. May be repeated."),
]
Version = Annotated[str | None, typer.Option("--version", help="Only if the handle has this version.")]

DEFAULT_TIMEOUT: Final = 10.0

_CONTEXT_HELP = "Name of the context that says how the service is reached (milepost config)."
_URL_HELP = "Address of the service, or several with commas between them."
_TOKEN_HELP = "Bearer token; the environment variable is safer."
_TOKEN_FILE_HELP = "File with the bearer token in it and nothing else, read for each request."
_TIMEOUT_HELP = "Timeout of one call in seconds."
_CA_HELP = "File of the authorities whose certificates the service may have (PEM)."
_CERT_HELP = "File of the certificate to show (PEM), for a service that wants one."
_KEY_HELP = "File of its key (PEM)."
_FORM_HELP = "How answers are printed."

# The options before the name of a command. Their defaults come from the environment.
Context = Annotated[
    str | None,
    typer.Option("--context", envvar="MILEPOST_CONTEXT", help=_CONTEXT_HELP, show_default="the current one"),
]
Url = Annotated[str | None, typer.Option("--url", "-u", envvar=URL, help=_URL_HELP, show_default=DEFAULT_URL)]
Token = Annotated[str | None, typer.Option("--token", envvar=TOKEN, help=_TOKEN_HELP, show_default=False)]
TokenPath = Annotated[
    Path | None, typer.Option("--token-file", envvar=TOKEN_FILE, help=_TOKEN_FILE_HELP, show_default=False)
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help=_TIMEOUT_HELP)]
Ca = Annotated[Path | None, typer.Option("--ca", envvar="MILEPOST_CA", help=_CA_HELP, show_default="public ones")]
Cert = Annotated[Path | None, typer.Option("--cert", envvar="MILEPOST_CERT", help=_CERT_HELP, show_default=False)]
Key = Annotated[Path | None, typer.Option("--key", envvar="MILEPOST_KEY", help=_KEY_HELP, show_default="the same file")]
OutputForm = Annotated[Form | None, typer.Option("--output", "-o", help=_FORM_HELP, show_default=Form.TABLE.value)]
AsJson = Annotated[bool, typer.Option("--json", help="The same as -o json.")]

# The same options after the name of a command. Without a value there, the value before the name counts.
_CONNECTION: Mapping[str, Any] = {
    "context_name": Annotated[str | None, typer.Option("--context", help=_CONTEXT_HELP)],
    "url": Annotated[str | None, typer.Option("--url", "-u", help=_URL_HELP)],
    "token": Annotated[str | None, typer.Option("--token", help=_TOKEN_HELP)],
    "token_file": Annotated[Path | None, typer.Option("--token-file", help=_TOKEN_FILE_HELP)],
    "timeout": Annotated[float | None, typer.Option("--timeout", min=0.1, help=_TIMEOUT_HELP)],
    "ca": Annotated[Path | None, typer.Option("--ca", help=_CA_HELP)],
    "cert": Annotated[Path | None, typer.Option("--cert", help=_CERT_HELP)],
    "key": Annotated[Path | None, typer.Option("--key", help=_KEY_HELP)],
}
_SHOWN: Mapping[str, Any] = {
    "form": Annotated[Form | None, typer.Option("--output", "-o", help=_FORM_HELP)],
    "as_json": Annotated[bool | None, typer.Option("--json", help="The same as -o json.")],
}


@dataclass(frozen=True)
class Options:
    """The values of the options of the connection and the output: ``flags`` from the command line, ``environment`` from
    environment variables.
    """

    flags: Given = field(default_factory=Given)
    environment: Given = field(default_factory=Given)
    timeout: float = DEFAULT_TIMEOUT
    form: Form = Form.TABLE

    def but(
        self,
        context_name: str | None = None,
        url: str | None = None,
        token: str | None = None,
        token_file: Path | None = None,
        timeout: float | None = None,
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
        form: Form | None = None,
        as_json: bool | None = None,
    ) -> Options:
        """Return a copy of these options in which the given flags, those that are not None, replace earlier ones."""
        if as_json and form not in (None, Form.JSON):
            raise typer.BadParameter("is the same as -o json, so no other form goes with it", param_hint="'--json'")
        if token is not None and token_file is not None:
            raise typer.BadParameter("is one place of the token, and --token another", param_hint="'--token-file'")
        given = {"context": context_name, "url": url, "ca": ca, "cert": cert, "key": key}
        changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if token is not None or token_file is not None:  # a token replaces an earlier token file, and the reverse
            changed |= {"token": token, "token_file": token_file}
        return Options(
            replace(self.flags, **changed),
            self.environment,
            self.timeout if timeout is None else timeout,
            Form.JSON if as_json else form or self.form,
        )

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of the service, from whichever source has them."""
        return self.reached.urls

    @property
    def token(self) -> str | None:
        """The present bearer token, read anew if it is in a file; None without a token."""
        token = self.reached.token
        return token() if callable(token) else token

    @property
    def credential(self) -> GivenToken | None:
        """What a client takes as its token: the bearer token, or a function that returns the present one; None without
        a token.
        """
        return self.reached.token

    @cached_property
    def reached(self) -> Reached:
        """The connection settings from all sources. Warnings about the file of contexts are printed on stderr."""
        try:
            found = reached(self.flags, self.environment, lambda: ContextFile.of_user(os.environ).read())
        except ConfigError as error:
            raise typer.BadParameter(str(error), param_hint="'--context', '--token-file'") from error
        for warning in found.warnings:
            typer.echo(f"warning: {warning}", err=True)
        return found

    @contextmanager
    def client(self, failed: int | None = None, *, direct: bool = True) -> Iterator[Client]:
        """Yield a client of the service. An error ends the command with its exit code; ``failed`` overrides the exit
        code.

        Without ``direct``, states are never sent to or read from a blob store by signed URLs, but only through the
        service.
        """
        with errors_end_the_command(failed), self.client_of(self.urls, direct=direct) as client:
            yield client

    def client_of(self, urls: tuple[str, ...], *, direct: bool = True) -> Client:
        """Return a client of the service at ``urls``. Without ``direct``, it never transfers states by signed URLs."""
        verify = self.verify()
        try:
            above = DIRECT_ABOVE if direct else None
            return Client(urls, token=self.credential, timeout=self.timeout, verify=verify, direct_above=above)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="'--url'") from error

    def verify(self) -> Verify:
        """Return the TLS settings of a client: which certificates it trusts, and which one it presents."""
        reached = self.reached
        if reached.key is not None and reached.cert is None:
            raise typer.BadParameter("is the key of a certificate: give --cert too", param_hint="'--key'")
        if reached.ca is None and reached.cert is None:
            return True
        try:
            return trusting(reached.ca, reached.cert, reached.key)
        except (ValueError, OSError) as error:
            raise typer.BadParameter(str(error), param_hint="'--ca', '--cert', '--key'") from error


def shared(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command accept the options of the connection and of the output after its name, too."""
    return _taking({**_CONNECTION, **_SHOWN}, command)


def connecting(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command accept the options of the connection after its name, too, but not those of the output."""
    return _taking(_CONNECTION, command)


def showing(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command accept the options of the output after its name, too, but not those of the connection."""
    return _taking(_SHOWN, command)


def _taking(options: Mapping[str, Any], command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def taking(context: typer.Context, **given: Any) -> None:
        context.obj = context.obj.but(**{name: given.pop(name) for name in options})
        command(context, **given)

    own = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in options.items()]
    parameters = [*own.parameters.values(), *added]
    taking.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    taking.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return taking

"""Say which stores a command cannot see: a listing shows those that the token may read, and does not tell of others."""

from __future__ import annotations

from fnmatch import fnmatchcase

import httpx
import typer

from milepost.cli.options import Options
from milepost.drivers.connections import Connections
from milepost.operations.replicas import WHOAMI


def warn_of_unseen_stores(options: Options, patterns: list[str] | None) -> None:
    """Warn on stderr if the token may not read every store that one of the patterns may mean; None: every store.

    A service that does not answer, or that is too old to say, is not waited for.
    """
    readable = _readable(options)
    wanted = patterns or ["*"]
    if readable is not None and not all(any(fnmatchcase(each, right) for right in readable) for each in wanted):
        typer.echo(
            "warning: the token may not read every store that is meant, and those that it may not read are left out",
            err=True,
        )


def _readable(options: Options) -> list[str] | None:
    """Return the patterns of the stores that the token may read; None if no replica says."""
    token = options.token
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with Connections(options.verify()).client(httpx.Client) as http:
        http.timeout = options.timeout
        for url in options.urls:
            try:
                answer = http.get(url.rstrip("/") + WHOAMI.path, headers=headers)
                if answer.is_success:
                    rights = answer.json()
                    return ["*"] if rights["admin"] else [*rights["reader"], *rights["writer"]]
            except (httpx.HTTPError, ValueError, LookupError, TypeError):
                continue
    return None

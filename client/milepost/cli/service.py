"""The questions that several commands ask the service: which replica leads, whether a store exists, which stores the
token cannot see, and the files below a directory of a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TypeVar

import httpx
import typer

from milepost.cli.options import Options
from milepost.client import Client
from milepost.drivers.connections import Connections
from milepost.errors import NotExist
from milepost.files import JobFiles
from milepost.operations.replicas import WHOAMI
from milepost.types import JobFile, Status
from milepost.wire import Code

T = TypeVar("T")


def status_of_leader(options: Options, client: Client) -> Status | None:
    """Return the status of the replica that leads; None if none does. Raises the errors of `Client.status`."""
    status = client.status()
    if status.role != "leader" and status.leader is not None:
        with options.client_of((status.leader,)) as leader:
            status = leader.status()
    return status if status.role == "leader" else None


def of_store(client: Client, store: str, found: Iterable[T]) -> Iterator[T]:
    """Yield the items that were found in a store. Raises `NotExist` if there are none and the store does not exist."""
    none = True
    for each in found:
        none = False
        yield each
    if none and not _is_listed(client, store):
        raise NotExist(Code.NOT_EXIST, f"there is no store {store!r}")


def _is_listed(client: Client, store: str) -> bool:
    names = (each.store for each in client.stores())
    return next((name for name in names if name >= store), None) == store


def warn_of_unseen_stores(options: Options, patterns: list[str] | None) -> None:
    """Warn on stderr if the token may not read every store that one of the patterns may match; None: every store.

    The command does not wait for a service that does not answer, or that is too old to say.
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


def walk(files: JobFiles, directory: str = "") -> Iterator[JobFile]:
    """Yield everything below a directory, each directory before its content. Raises `NotExist`."""
    for entry in files.list(directory):
        yield entry
        if entry.directory:
            yield from walk(files, entry.path)

"""Requests to the service that several commands make.

They list something in each cell, and find out which replica leads, whether a store exists, and which stores the token
may not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import typer

from milepost.cli.errors import exit_code, line_about
from milepost.cli.options import Options
from milepost.cli.output import fields_of, show_all
from milepost.client import Client
from milepost.errors import InvalidRequest, MilepostError, NotExist
from milepost.types import Status
from milepost.wire import Code

T = TypeVar("T")


def show_of_each_cell(
    context: typer.Context, client: Client, listed: Callable[[Client], Iterable[Any]], columns: tuple[str, ...]
) -> None:
    """Print what ``listed`` returns for the client of each cell, each line with its cell; without the column of the
    cell if there are no cells. A cell that fails has a line on stderr, and ends the command once the others are shown.
    """
    cells = client.by_cell()
    if len(cells) == 1 and "" in cells:
        show_all(context, listed(client), columns)
        return
    rows: list[dict[str, Any]] = []
    failed: MilepostError | None = None
    for name, one in cells.items():
        try:
            rows += [{"cell": name, **fields_of(each)} for each in listed(one)]
        except MilepostError as error:
            typer.echo(f"cell {name}: {line_about(error)}", err=True)
            failed = error
    show_all(context, rows, ("cell", *columns))
    if failed is not None:
        raise typer.Exit(exit_code(failed))


def of_cell(client: Client, cell: str | None) -> Client:
    """Return the client of the cell that the user names; without cells, the client itself."""
    cells = client.by_cell()
    if cell is None and "" in cells:
        return client
    if cell is None or cell not in cells:
        names = ", ".join(filter(None, cells)) or "(there are none)"
        raise typer.BadParameter(f"names one of the cells: {names}", param_hint="'--cell'")
    return cells[cell]


def status_of_leader(options: Options, client: Client) -> Status | None:
    """Return the status of the leader of one deployment; None if no replica leads. Raises the errors of
    `Client.status`.
    """
    status = client.status()
    if status.role != "leader" and status.leader is not None:
        with options.client_of((status.leader,)) as leader:
            status = leader.status()
    return status if status.role == "leader" else None


def of_store(client: Client, store: str, found: Iterable[T]) -> Iterator[T]:
    """Yield the items in ``found``, which a store lists. If there are none, find out whether the store exists, and
    raise `NotExist` if it does not.
    """
    none = True
    for each in found:
        none = False
        yield each
    if none and not _is_listed(client, store):
        raise NotExist(Code.NOT_EXIST, f"there is no store {store!r}")


def _is_listed(client: Client, store: str) -> bool:
    names = (each.store for each in client.of_job(store).stores())
    return next((name for name in names if name >= store), None) == store


def warn_of_unseen_stores(client: Client, patterns: list[str] | None) -> None:
    """Print a warning if the token may not read every store that one of ``patterns`` can match (None: every store).

    A service of an older release does not report the rights of a token; then there is no warning.
    """
    try:
        rights = client.whoami()
    except InvalidRequest as error:
        if error.code is Code.NO_ROUTE:
            return
        raise
    readable = ("*",) if rights.admin else (*rights.reader, *rights.writer)
    if not all(any(fnmatchcase(each, right) for right in readable) for each in patterns or ["*"]):
        typer.echo(
            "warning: the token may not read every store that is meant, and those that it may not read are left out",
            err=True,
        )

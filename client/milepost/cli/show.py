"""The commands that only read: `status`, `ls`, `show` and `epochs`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from milepost.cli.errors import exit_code, say
from milepost.cli.options import Name, Options, Store, shared
from milepost.cli.output import show, show_all
from milepost.cli.service import of_store, show_of_each_cell
from milepost.client import Client
from milepost.errors import MilepostError
from milepost.types import Epoch

_OF_STORES: Final = ("store", "handles", "revision", "epoch", "holder", "batch", "damaged")


@dataclass(frozen=True)
class StoreEpoch:
    """A line of ``milepost epochs``: the epoch of one store, and who holds it. ``epoch`` is None if the store's record
    is damaged.
    """

    store: str
    epoch: int | None
    holder: str | None = None
    session: str | None = None
    since: datetime | None = None


@shared
def status(context: typer.Context) -> None:
    """Show the leader, and the replicas at the given addresses.

    An address that does not answer has a line on stderr. It is an error if none answers.
    """
    options: Options = context.obj
    found: list[dict[str, Any]] = []
    failed: MilepostError | None = None
    columns = ("replica", "role", "leader", "term", "lease_remaining", "version", "pointers", "blobs")
    with options.client() as whole:
        places = [(cell, url) for cell, one in whole.by_cell().items() for url in sorted(one.addresses)]
    for cell, url in places:
        with options.client_of((url,)) as client:
            try:
                status = asdict(client.status())
            except MilepostError as error:
                say(error)
                failed = error
            else:
                found.append({"cell": cell, **status} if cell else status)
    if failed is not None and not found:
        raise typer.Exit(exit_code(failed))
    show_all(context, found, ("cell", *columns) if any(cell for cell, _ in places) else columns)


@shared
def ls(
    context: typer.Context,
    store: Annotated[str | None, typer.Argument(help="Name of a store; without it all stores are listed.")] = None,
) -> None:
    """List the stores, or the handles of one store.

    The line of a store has the holder of its epoch, the last batch whose checkpoint is kept, and the number of damaged
    records.
    """
    options: Options = context.obj
    with options.client() as client:
        if store is None:
            show_of_each_cell(context, client, _stores, _OF_STORES)
        else:
            columns = ("name", "version", "size", "updated", "epoch", "locks", "labels", "removing")
            show_all(context, of_store(client, store, client.store(store).get_all_handles()), columns)


@shared
def show_handle(context: typer.Context, store: Store, name: Name) -> None:
    """Show the record of a handle, without its state."""
    options: Options = context.obj
    with options.client() as client:
        show(context, client.store(store).get(name))


@shared
def epochs(
    context: typer.Context,
    store: Annotated[str | None, typer.Argument(help="Name of a store; without it all stores are looked at.")] = None,
) -> None:
    """Show the epoch of each store, and its holder.

    An epoch of 0 means that the store never had one.
    """
    options: Options = context.obj
    with options.client() as client:
        columns = ("store", "epoch", "holder", "session", "since")
        if store is None:
            show_of_each_cell(context, client, _epochs, columns)
        else:
            show_all(context, [_line(store, client.store(store).current_epoch())], columns)


def _stores(client: Client) -> Iterator[dict[str, Any]]:
    for each in client.stores():
        yield {**asdict(each), "batch": each.snapshot and each.snapshot.batch}


def _epochs(client: Client) -> Iterator[StoreEpoch]:
    for each in client.stores():
        # each store is asked for its holder, since an older service does not list the holders
        if each.epoch and each.damaged is None:
            yield _line(each.store, client.store(each.store).current_epoch())
        else:
            yield StoreEpoch(each.store, each.epoch, each.holder, each.session, each.since)


def _line(store: str, found: Epoch) -> StoreEpoch:
    return StoreEpoch(store, found.epoch, found.holder, found.session, found.since)

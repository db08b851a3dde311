"""Tells an empty store from one that is not there, such as one whose name was mistyped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from milepost.client import Client
from milepost.errors import NotExist
from milepost.wire import Code

T = TypeVar("T")


def of_store(client: Client, store: str, found: Iterable[T]) -> Iterator[T]:
    """Yield what was found of a store. Raises `NotExist` if that is nothing, and the store is not there."""
    none = True
    for each in found:
        none = False
        yield each
    if none and not _is_listed(client, store):
        raise NotExist(Code.NOT_EXIST, f"there is no store {store!r}")


def _is_listed(client: Client, store: str) -> bool:
    names = (each.store for each in client.stores())
    return next((name for name in names if name >= store), None) == store

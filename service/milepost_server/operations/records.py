"""Read a record that several operations need."""

from __future__ import annotations

from milepost_server.basics.problems import refusal
from milepost_server.memory.lookup import Lookup
from milepost_server.model.records import Store
from milepost_server.rules.guards import store_readable


def store_in(view: Lookup, name: str) -> Store:
    """Return the store's own record, or a new one if there is none.

    Raises a ``corrupt`` problem if the record cannot be read: it is then unknown which handles were cleared, and which
    epoch is the current one.
    """
    if damaged := store_readable(view, name):
        raise refusal(damaged)
    record = view.store(name)
    return record if isinstance(record, Store) else Store(name)

"""Takes over the state and the timers of keys from other tables, when the number of tables changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from milepost.state.coders.framing import read_escaped
from milepost.state.dialects.beam.cells import StateKind
from milepost.state.dialects.beam.tables import StateTable
from milepost.state.dialects.beam.timers import BY_ID, OF_ALL, OF_KEY, WATERMARKS, TimerRows
from milepost.state.store.contract.stores import ReadStateStore


def take_over(table: StateTable, older: Iterable[ReadStateStore], mine: Callable[[bytes], bool]) -> None:
    """Put the state and the timers of some keys into a new, empty table.

    ``mine`` returns whether an encoded key is one of them. ``older`` are all the stores that have had the keys; each is
    read completely. The watermarks become the earliest of theirs, and stay unset if one of the stores has none. The
    written rows stay in memory until the new store is committed. Raises `CoderError`, and the errors of the stores.
    """
    watermarks: list[dict[bytes, bytes]] = []
    for source in older:
        there = source.all_column_family_names()
        for kind in StateKind:
            table.create_column_family_if_absent(kind.family, multiple_values_per_key=kind.multiple)
            if kind.family in there:
                pairs = source.iterator_with_multi_values if kind.multiple else source.iterator
                write = table.merge if kind.multiple else table.put
                for row, value in pairs(kind.family):
                    if mine(read_escaped(row, 0)[0]):
                        write(row, value, kind.family)
        for family in (BY_ID, OF_KEY, OF_ALL):
            table.create_column_family_if_absent(family)
            for row, value in source.iterator(family) if family in there else ():
                if mine(TimerRows.read_of_all(row)[0] if family == OF_ALL else read_escaped(row, 0)[0]):
                    table.put(row, value, family)
        watermarks.append(dict(source.iterator(WATERMARKS)) if WATERMARKS in there else {})
    table.create_column_family_if_absent(WATERMARKS)
    for name in set.intersection(*(set(each) for each in watermarks)) if watermarks else ():
        table.put(name, min(each[name] for each in watermarks), WATERMARKS)

"""The state of keys: a table of namespaces and tags for each key."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from milepost.state.coders import Coder
from milepost.state.dialects.beam.cells import Cell, Cells, StateKind
from milepost.state.dialects.beam.keys import PerKey
from milepost.state.dialects.beam.namespaces import FIRST_WINDOW, StateNamespace, WindowNamespace
from milepost.state.dialects.beam.states import State
from milepost.state.dialects.beam.tables import StateTable
from milepost.state.dialects.beam.tags import StateTag
from milepost.state.dialects.beam.values import WatermarkHoldState
from milepost.state.errors import InvalidUse
from milepost.state.store.rows import after_prefix

K = TypeVar("K")
S = TypeVar("S", bound=State)


class StateInternals(Generic[K]):
    """All state of one key: a cell for each namespace and tag (Beam's ``StateInternals``)."""

    def __init__(self, cells: Cells, key: K, prefix: bytes) -> None:
        """`StateInternalsFactory` makes these; the keys of all cells begin with ``prefix``."""
        self._cells = cells
        self._key = key
        self._prefix = prefix
        self._states: WeakValueDictionary[tuple[StateNamespace, StateTag[Any]], State] = WeakValueDictionary()

    @property
    def key(self) -> K:
        """The key to which the state belongs (``getKey``)."""
        return self._key

    def state(self, namespace: StateNamespace, tag: StateTag[S]) -> S:
        """Return the cell of a tag in a namespace (``state``): the same object, as long as it is referenced."""
        found: Any = self._states.get((namespace, tag))
        if found is None:
            found = tag.bind(Cell(self._cells, tag.kind, self._prefix + namespace.key + tag.key))
            self._states[namespace, tag] = found
        return found  # type: ignore[no-any-return]

    def clear(self, namespace: StateNamespace) -> None:
        """Empty all cells of a namespace; for a window, also those of its triggers."""
        prefix = self._prefix + namespace.prefix
        self._delete(prefix, after_prefix(prefix))

    def clear_windows_before(self, namespace: WindowNamespace) -> None:
        """Empty all cells of the windows that sort before a window: with `IntervalWindowCoder`, those that end before
        it, and those that end with it and start before it.

        Raises `InvalidUse` for a window whose coder is not ordered.
        """
        if not namespace.window_coder.ordered:
            raise InvalidUse(f"no window is before another as {type(namespace.window_coder).__name__} writes them")
        self._delete(self._prefix + FIRST_WINDOW, self._prefix + namespace.window_prefix)

    def earliest_watermark_hold(self) -> datetime | None:
        """Return the earliest time at which any hold of this key holds the watermark, or None (Beam's
        ``getEarliestWatermarkHold``).
        """
        holds = self._cells.to_read().prefix_scan(self._prefix, StateKind.WATERMARK_HOLD.family)
        return min((WatermarkHoldState.coder.decode(hold) for _, hold in holds), default=None)

    def _delete(self, start: bytes, end: bytes | None) -> None:
        table = self._cells.to_change()
        for kind in StateKind:
            table.delete_range(start, end, kind.family)


class StateInternalsFactory(Generic[K]):
    """Returns the state of each key in one table (Beam's ``StateInternalsFactory``).

    A `StateStore` as the table keeps the state in its next version: `StateStore.commit` writes it, and
    `StateStore.abort` drops the changes. A `HeapTable` keeps it in memory. Like both, the factory belongs to one
    thread. It owns the column families whose names begin with ``state:``.
    """

    def __init__(self, table: StateTable, key_coder: Coder[K]) -> None:
        """``key_coder`` encodes the keys of the state. Raises `NotDeterministic`, and the errors of the table."""
        cells = Cells(table)
        self._keys: PerKey[K, StateInternals[K]] = PerKey(
            key_coder, lambda key, prefix: StateInternals(cells, key, prefix)
        )

    @property
    def key_coder(self) -> Coder[K]:
        """The coder of the keys."""
        return self._keys.coder

    def state_internals_for_key(self, key: K) -> StateInternals[K]:
        """Return the state of a key (``stateInternalsForKey``): the same object, as long as it is referenced.

        Raises `CoderError`.
        """
        return self._keys.get(key)

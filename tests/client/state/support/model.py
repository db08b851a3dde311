"""What a store is to hold, in the plainest way: dicts."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from milepost.state.store import Change, ChangeKind, ReadStateStore, StateStore


class Model:
    """The families of a store: whether each has several values for a key, and the values of each key."""

    def __init__(self) -> None:
        self.families: dict[str, tuple[bool, dict[bytes, list[bytes]]]] = {"default": (False, {})}

    def copy(self) -> Model:
        """Return a model of the same content."""
        return copy.deepcopy(self)

    def keys(self, family: str) -> dict[bytes, list[bytes]]:
        """Return the keys of a family, and their values."""
        return self.families[family][1]

    def pairs(self, family: str, start: bytes = b"", end: bytes | None = None) -> list[tuple[bytes, bytes]]:
        """Return the keys of a range with each of their values."""
        keys = self.keys(family)
        found = sorted(key for key in keys if key >= start and (end is None or key < end))
        return [(key, value) for key in found for value in keys[key]]

    @property
    def count(self) -> int:
        """The number of all keys."""
        return sum(len(keys) for _, keys in self.families.values())

    def see(self, change: Change) -> None:
        """Do what a change feed tells."""
        keys = self.keys(change.family)
        if change.kind is ChangeKind.REMOVE:
            keys.pop(change.key, None)
        elif change.kind is ChangeKind.PUT:
            keys[change.key] = list(change.values)
        else:
            keys.setdefault(change.key, []).extend(change.values)


def pairs_of(store: ReadStateStore, family: str, multiple: bool) -> Iterator[tuple[bytes, bytes]]:
    """Iterate a family of either kind."""
    return store.iterator_with_multi_values(family) if multiple else store.iterator(family)


def agree(store: ReadStateStore, model: Model) -> None:
    """Fail the test where a store does not hold what its model does."""
    assert store.all_column_family_names() == set(model.families)
    for family, (multiple, keys) in model.families.items():
        assert list(pairs_of(store, family, multiple)) == model.pairs(family)
        if multiple:
            assert {key: list(store.values_iterator(key, family)) for key in keys} == keys
        else:
            assert store.multi_get([*keys, b"absent"], family) == [*(values[0] for values in keys.values()), None]
    if isinstance(store, StateStore):
        assert store.metrics.num_keys == model.count or store.has_committed is False

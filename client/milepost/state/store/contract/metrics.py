"""Numbers about a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StateStoreMetrics:
    """Numbers about one store, or about several together (``StateStoreMetrics``).

    ``num_keys`` is the number of keys in the version that the store was opened at, or, once it was committed, in the
    new one.
    """

    num_keys: int
    memory_used_bytes: int
    custom: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def combine(all_metrics: Iterable[StateStoreMetrics]) -> StateStoreMetrics:
        """Add up the numbers of several stores (``StateStoreMetrics.combine``)."""
        keys = memory = 0
        custom: Counter[str] = Counter()
        for one in all_metrics:
            keys += one.num_keys
            memory += one.memory_used_bytes
            custom.update(one.custom)
        return StateStoreMetrics(keys, memory, dict(custom))

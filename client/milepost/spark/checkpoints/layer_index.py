"""The index of stored files: which files of a checkpoint directory are stored already, and in which layer.

The layers form a log. New files go into a new layer. A layer whose files are all gone is dropped. A layer that is
mostly dead, or one of too many, is merged into the next one by storing its live files again. So the stored bytes stay
within a small multiple of the live ones, and the number of handles within `MAX_LAYERS` for each retained checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from milepost.spark.checkpoints.snapshot import Stat
from milepost.spark.record import Layer

INLINE_BYTES = 8 * 1024
"""New files are stored inside the job record if they have no more than this many bytes together."""
MAX_LAYERS = 64
SPARSE = 4
"""A layer is merged when less than 1/SPARSE of its bytes belongs to live files."""


@dataclass(frozen=True)
class Plan:
    """The way to store one checkpoint: ``inline`` in the record, ``pack`` in a new layer, ``keep`` the older layers it
    needs.
    """

    inline: tuple[str, ...]
    pack: Mapping[str, Stat]
    keep: tuple[Layer, ...]


@dataclass
class LayerIndex:
    """The place where each file of the directory is stored.

    A layer with the name "" stands for: inline in the record.
    """

    layers: dict[str, Layer] = field(default_factory=dict)
    placed: dict[str, tuple[Stat, str]] = field(default_factory=dict)

    def plan(self, files: Mapping[str, Stat]) -> Plan:
        """Return how to store ``files`` with as few new bytes as possible."""
        live: dict[str, dict[str, Stat]] = {name: {} for name in self.layers}
        loose: dict[str, Stat] = {}
        for path, stat in files.items():
            known, layer = self.placed.get(path, (None, ""))
            if known == stat and layer:
                live[layer][path] = stat
            else:
                loose[path] = stat
        if _bytes(loose) <= INLINE_BYTES:
            keep = tuple(layer for layer in self.layers.values() if live[layer.name])
            return Plan(tuple(loose), {}, keep)
        merged = self._merged(live)
        pack = {path: stat for name in merged for path, stat in live[name].items()} | loose
        keep = tuple(layer for layer in self.layers.values() if live[layer.name] and layer.name not in merged)
        return Plan((), pack, keep)

    def stored(self, plan: Plan, files: Mapping[str, Stat], layer: Layer | None) -> None:
        """Note that ``plan`` for ``files`` was carried out; ``layer`` is its new layer, if it had one."""
        names = {kept.name for kept in plan.keep}
        self.placed = {path: at for path, at in self.placed.items() if path in files and at[1] in names}
        self.layers = {kept.name: kept for kept in plan.keep}
        self.placed.update({path: (files[path], "") for path in plan.inline})
        if layer is not None:
            self.layers[layer.name] = layer
            self.placed.update({path: (stat, layer.name) for path, stat in plan.pack.items()})

    def restored(self, layer: Layer, files: Mapping[str, Stat]) -> None:
        """Note that ``files`` of the directory were restored from ``layer``."""
        self.layers[layer.name] = layer
        self.placed.update({path: (stat, layer.name) for path, stat in files.items()})

    def _merged(self, live: Mapping[str, Mapping[str, Stat]]) -> set[str]:
        alive = {name: _bytes(files) for name, files in live.items() if files}
        sparse = {name for name, size in alive.items() if size * SPARSE < self.layers[name].size}
        crowded = sorted(alive, key=lambda name: alive[name])[: len(alive) // 2] if len(alive) >= MAX_LAYERS else ()
        return sparse.union(crowded)


def _bytes(files: Mapping[str, Stat]) -> int:
    return sum(stat.size for stat in files.values())

"""The index of stored files: which files of a checkpoint directory are stored already, and in which layer.

A layer is an archive of files in a handle of its own, and never changes. New files go into a new layer; as long as they
are few and small, they go into the job record instead ("inline"), again with each checkpoint. A file of a layer is live
as long as the directory has it unchanged, and dead after that. A checkpoint names the layers that have live files; the
handle of a layer that no retained checkpoint names is removed (`Removals`).

When a new layer is made, it also takes the live files of certain older layers, which then have none: of each layer in
which too little is live (`SPARSE`), and, if there are too many layers (`MAX_LAYERS`), of the half that has the fewest
live bytes. So the stored bytes stay within a small multiple of the live ones, and no checkpoint needs more than
`MAX_LAYERS` layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from milepost.spark.checkpoints.snapshot import Stat
from milepost.spark.record import Layer

INLINE_BYTES = 8 * 1024
"""Files that are in no layer are stored inside the job record if they have no more than this many bytes together."""
MAX_LAYERS = 64
"""So many layers are too many when another one is to be made."""
SPARSE = 4
"""Too little of a layer is live when less than 1/SPARSE of its bytes belongs to live files."""


@dataclass(frozen=True)
class Plan:
    """How to store one checkpoint: which files go ``inline`` into the job record, which are to ``pack`` into one new
    layer, and which older layers to ``keep`` because they have the rest.
    """

    inline: tuple[str, ...]
    pack: Mapping[str, Stat]
    keep: tuple[Layer, ...]


@dataclass
class LayerIndex:
    """The place where each file of the directory is stored.

    ``layers`` are by name, the oldest first. ``placed`` has, for each path, the file as it was stored, and the name of
    its layer; the name is empty for a file that is inline in the job record.
    """

    layers: dict[str, Layer] = field(default_factory=dict)
    placed: dict[str, tuple[Stat, str]] = field(default_factory=dict)

    def plan(self, files: Mapping[str, Stat]) -> Plan:
        """Return how to store ``files``: all files of a checkpoint but the logs of its batch (see `Selection`)."""
        live: dict[str, dict[str, Stat]] = {name: {} for name in self.layers}
        in_no_layer: dict[str, Stat] = {}
        for path, stat in files.items():
            known, layer = self.placed.get(path, (None, ""))
            if known == stat and layer:
                live[layer][path] = stat
            else:
                in_no_layer[path] = stat
        if _bytes(in_no_layer) <= INLINE_BYTES:
            keep = tuple(layer for layer in self.layers.values() if live[layer.name])
            return Plan(tuple(in_no_layer), {}, keep)
        merged = self._merged(live)
        pack = {path: stat for name in merged for path, stat in live[name].items()} | in_no_layer
        keep = tuple(layer for layer in self.layers.values() if live[layer.name] and layer.name not in merged)
        return Plan((), pack, keep)

    def stored(self, plan: Plan, files: Mapping[str, Stat], layer: Layer | None) -> None:
        """Note that the ``plan`` for ``files`` was carried out; ``layer`` is the new layer that was made, if any."""
        names = {kept.name for kept in plan.keep}
        self.placed = {path: at for path, at in self.placed.items() if path in files and at[1] in names}
        self.layers = {kept.name: kept for kept in plan.keep}
        self.placed.update({path: (files[path], "") for path in plan.inline})
        if layer is not None:
            self.layers[layer.name] = layer
            self.placed.update({path: (stat, layer.name) for path, stat in plan.pack.items()})

    def restored(self, layer: Layer, files: Mapping[str, Stat]) -> None:
        """Note that ``files`` of the directory were written from ``layer``, which is newer than all layers before."""
        self.layers[layer.name] = layer
        self.placed.update({path: (stat, layer.name) for path, stat in files.items()})

    def _merged(self, live: Mapping[str, Mapping[str, Stat]]) -> set[str]:
        """Return the names of the layers whose live files go into the new layer."""
        live_bytes = {name: _bytes(files) for name, files in live.items() if files}
        sparse = {name for name, size in live_bytes.items() if size * SPARSE < self.layers[name].size}
        by_size = sorted(live_bytes, key=lambda name: live_bytes[name])
        smallest = by_size[: len(by_size) // 2] if len(by_size) >= MAX_LAYERS else ()
        return sparse.union(smallest)


def _bytes(files: Mapping[str, Stat]) -> int:
    return sum(stat.size for stat in files.values())

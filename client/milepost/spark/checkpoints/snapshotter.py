"""Stores the checkpoint of a running query: selects, packs and uploads its files. The record names it afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from milepost.spark.checkpoints.layer_index import LayerIndex, Plan
from milepost.spark.checkpoints.layers import pack
from milepost.spark.checkpoints.portable import portable
from milepost.spark.checkpoints.snapshot import Selection, retry_while_files_vanish, scan, select
from milepost.spark.record import JobCheckpoint, Layer
from milepost.spark.store import SettlingStore

LAYER_PREFIX = "layer-"


@dataclass(frozen=True)
class Reading:
    """A checkpoint that was read completely and is not stored yet.

    ``archive`` is the content of its new layer: bytes, or a temporary file; None if it needs no new layer.
    """

    batch: int
    committed: bool
    selection: Selection
    plan: Plan
    inline: dict[str, bytes]
    archive: bytes | Path | None


@dataclass
class Snapshotter:
    """Takes the checkpoints of the query that runs in ``directory``; ``layer_index`` knows which files are stored
    already.
    """

    store: SettlingStore
    directory: Path
    layer_index: LayerIndex = field(default_factory=LayerIndex)
    _layers_made: int = 0

    def take(self, batch: int, *, committed: bool) -> JobCheckpoint:
        """Read and store the checkpoint at the entry to ``batch`` or after its commit.

        Raises the errors of `read` and `keep`.
        """
        return self.keep(self.read(batch, committed=committed))

    def read(self, batch: int, *, committed: bool) -> Reading:
        """Read the checkpoint at the entry to ``batch`` (before anything of it is evaluated) or after its commit.

        Raises `WrongCheckpoint` if the directory is not the running query's, and `UnsafeQuery` if its files could not
        be used anywhere else.
        """
        return retry_while_files_vanish(lambda: self._read(batch, committed))

    def keep(self, reading: Reading) -> JobCheckpoint:
        """Store what was read last, without looking at the directory again. Raises the errors of the upload."""
        plan = reading.plan
        try:
            layer = None if reading.archive is None else self._upload(plan, reading.archive)
        finally:
            self._scratch.unlink(missing_ok=True)
        self.layer_index.stored(plan, reading.selection.files, layer)
        layers = plan.keep if layer is None else (*plan.keep, layer)
        return JobCheckpoint(reading.batch, reading.committed, self.store.epoch, reading.inline, layers)

    def _read(self, batch: int, committed: bool) -> Reading:
        selection = select(scan(self.directory), batch, committed=committed)
        plan = self.layer_index.plan(selection.files)
        inline = {
            path: portable(path, (self.directory / path).read_bytes(), self.directory)
            for path in (*selection.log, *plan.inline)
        }
        archive = pack(self.directory, plan.pack, self._scratch) if plan.pack else None
        return Reading(batch, committed, selection, plan, inline, archive)

    @property
    def _scratch(self) -> Path:
        return self.directory.with_name(f".{self.directory.name}.layer")

    def _upload(self, plan: Plan, archive: bytes | Path) -> Layer:
        name = f"{LAYER_PREFIX}e{self.store.epoch}-{self._layers_made}"
        self._layers_made += 1
        handle = self.store.add(name, archive, {"files": str(len(plan.pack))})
        return Layer(name, handle.version, sum(stat.size for stat in plan.pack.values()), len(plan.pack))

"""Storing the checkpoint of a running query: select, pack, upload; the record names it afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from milepost.spark.layers import pack
from milepost.spark.ledger import Ledger, Plan
from milepost.spark.record import Checkpoint, Layer
from milepost.spark.snapshot import Selection, scan, select, settled
from milepost.spark.store import CertainStore

LAYER_PREFIX = "layer-"


@dataclass
class Snapshotter:
    """Takes the checkpoints of the query that runs in ``directory``; ``ledger`` knows what is stored already."""

    store: CertainStore
    directory: Path
    ledger: Ledger = field(default_factory=Ledger)
    _made: int = 0

    def take(self, batch: int, *, committed: bool) -> Checkpoint:
        """Store the checkpoint at the entry to ``batch`` (before anything of it is evaluated) or after its commit.

        Raises `WrongCheckpoint` when the directory is not the running query's, and what the upload raises.
        """
        scratch = self.directory.with_name(f".{self.directory.name}.layer")
        try:
            selection, plan, inline, archive = settled(lambda: self._read(batch, committed, scratch))
            layer = None if archive is None else self._upload(plan, archive)
        finally:
            scratch.unlink(missing_ok=True)
        self.ledger.stored(plan, selection.files, layer)
        layers = plan.keep if layer is None else (*plan.keep, layer)
        return Checkpoint(batch, committed, self.store.epoch, inline, layers)

    def _read(
        self, batch: int, committed: bool, scratch: Path
    ) -> tuple[Selection, Plan, dict[str, bytes], bytes | Path | None]:
        selection = select(scan(self.directory), batch, committed=committed)
        plan = self.ledger.plan(selection.files)
        inline = {path: (self.directory / path).read_bytes() for path in (*selection.log, *plan.inline)}
        return selection, plan, inline, pack(self.directory, plan.pack, scratch) if plan.pack else None

    def _upload(self, plan: Plan, archive: bytes | Path) -> Layer:
        name = f"{LAYER_PREFIX}e{self.store.epoch}-{self._made}"
        self._made += 1
        handle = self.store.add(name, archive, {"files": str(len(plan.pack))})
        return Layer(name, handle.version, sum(stat.size for stat in plan.pack.values()), len(plan.pack))

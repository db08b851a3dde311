"""The settings of a `FileStateStoreProvider`."""

from __future__ import annotations

from dataclasses import dataclass, field

from milepost.state.errors import InvalidUse
from milepost.state.store.engines.engine import EngineFactory, MemoryEngine


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The settings of a `FileStateStoreProvider`. If Spark has a setting with the same meaning, the docstring of a
    field names it, and its values are valid here, too.
    """

    engines: EngineFactory = field(default=MemoryEngine)
    """Makes the engine of an open version (``stateStore.providerClass``)."""

    min_deltas_for_snapshot: int = 10
    """The number of commits after which maintenance makes a snapshot (``stateStore.minDeltasForSnapshot``)."""

    versions_to_keep: int = 100
    """The number of versions that clean-up keeps, including the newest (``minBatchesToRetain``)."""

    maintenance_interval: float | None = 60.0
    """The seconds between two runs of maintenance; None runs none (``stateStore.maintenanceInterval``)."""

    merge_after: int = 20
    """The number of single commits in a snapshot from which on they are merged into a run."""

    merge_ratio: float = 1.25
    """A merge leaves a run unchanged that is at least this many times as large as the newer runs to merge. With a lower
    ratio, less is written, and a reader must read more runs.
    """

    part_bytes: int = 8 * 1024 * 1024
    """The bytes of keys and values after which a run continues in another file. A merge needs several times this much
    memory.
    """

    grace: float = 86400.0
    """The age in seconds at which clean-up removes files of abandoned commits and merges."""

    idle_engines: int = 2
    """The number of versions that stay loaded when no store has them open (``maxBatchesToRetainInMemory``)."""

    def __post_init__(self) -> None:
        if self.min_deltas_for_snapshot < 1 or self.versions_to_keep < 1 or self.idle_engines < 0:
            raise InvalidUse("a snapshot takes one commit at least, and one version at least is kept")
        if self.merge_ratio < 1 or self.merge_after < 1 or self.part_bytes < 1:
            raise InvalidUse("the ratio, the number of commits and the size of a part are 1 at least")

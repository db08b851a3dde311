"""What a provider is told beside the place of its files."""

from __future__ import annotations

from dataclasses import dataclass, field

from milepost.state.errors import InvalidUse
from milepost.state.store.engines.contract import EngineFactory
from milepost.state.store.engines.memory import MemoryEngine


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """How a provider works. A field names Spark's setting of the same meaning, if there is one, and has its value."""

    engines: EngineFactory = field(default=MemoryEngine)
    """Makes what holds an open version (``stateStore.providerClass``)."""

    min_deltas_for_snapshot: int = 10
    """Commits after which maintenance makes a snapshot (``stateStore.minDeltasForSnapshot``)."""

    versions_to_keep: int = 100
    """Versions that clean-up keeps, the newest among them (``minBatchesToRetain``)."""

    maintenance_interval: float | None = 60.0
    """Seconds between two runs of maintenance; None runs none (``stateStore.maintenanceInterval``)."""

    merge_after: int = 20
    """Commits that a snapshot names one by one at most; that many are merged into a run."""

    merge_ratio: float = 1.25
    """A run stays as it is while it is this many times as large as what is merged. Less writes less, and lets a reader
    read more."""

    part_bytes: int = 8 * 1024 * 1024
    """Bytes of keys and values after which a run goes on in another file. Merging holds such a file in memory, several
    times over."""

    grace: float = 86400.0
    """Seconds for which a file of a commit or of a merge that came to nothing is left alone."""

    idle_engines: int = 2
    """Versions that stay loaded when nobody has them open (``maxBatchesToRetainInMemory``)."""

    def __post_init__(self) -> None:
        if self.min_deltas_for_snapshot < 1 or self.versions_to_keep < 1 or self.idle_engines < 0:
            raise InvalidUse("a snapshot takes one commit at least, and one version at least is kept")
        if self.merge_ratio < 1 or self.merge_after < 1 or self.part_bytes < 1:
            raise InvalidUse("the ratio, the number of commits and the size of a part are 1 at least")

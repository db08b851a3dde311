"""The contract of a store: `ReadStateStore` for reading one version, `StateStore` for making the next.

A store belongs to one thread. Keys and values are bytes, and keys sort by their bytes. A method that takes ``family``
means the default column family where none is named.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from milepost.state.store.contract.values import DEFAULT_FAMILY, CheckpointInfo, StateStoreId, StateStoreMetrics

Pairs = Iterator[tuple[bytes, bytes]]


class ReadStateStore(ABC):
    """One version of a store, to be read (``ReadStateStore``).

    Every method but `release` and `abort` raises `StoreEnded` once the store is released. A method for one value of a
    key raises `InvalidUse` for a family with several, and the other way round; a family that is not there is
    `UnknownFamily`. Iterators show the store as it was when they were asked for, and raise `StoreEnded` when it ends.
    """

    @property
    @abstractmethod
    def id(self) -> StateStoreId:
        """Which store this is (``id``)."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The version that the store was opened at (``version``)."""

    @abstractmethod
    def get(self, key: bytes, family: str = DEFAULT_FAMILY) -> bytes | None:
        """Return the value of a key, or None if there is no such key (``get``)."""

    @abstractmethod
    def multi_get(self, keys: Sequence[bytes], family: str = DEFAULT_FAMILY) -> list[bytes | None]:
        """Return the value of each key, in their order (``multiGet``)."""

    @abstractmethod
    def key_exists(self, key: bytes, family: str = DEFAULT_FAMILY) -> bool:
        """Say whether there is a key, in a family of any kind (``keyExists``)."""

    @abstractmethod
    def values_iterator(self, key: bytes, family: str = DEFAULT_FAMILY) -> Iterator[bytes]:
        """Iterate the values of a key in the order they were added; none of no key (``valuesIterator``)."""

    @abstractmethod
    def iterator(self, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate all keys and their values, sorted by key (``iterator``)."""

    @abstractmethod
    def iterator_with_multi_values(self, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate all keys with each of their values, sorted by key (``iteratorWithMultiValues``)."""

    @abstractmethod
    def prefix_scan(self, prefix: bytes, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate the keys that begin with a prefix, and their values, sorted by key (``prefixScan``)."""

    @abstractmethod
    def prefix_scan_with_multi_values(self, prefix: bytes, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate the keys that begin with a prefix, with each of their values (``prefixScanWithMultiValues``)."""

    @abstractmethod
    def range_scan(self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate the keys from ``start`` on and before ``end``, sorted; None leaves an end open (``rangeScan``)."""

    @abstractmethod
    def range_scan_with_multi_values(
        self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY
    ) -> Pairs:
        """Iterate the same range with each of the values of a key (``rangeScanWithMultiValues``)."""

    @abstractmethod
    def all_column_family_names(self) -> frozenset[str]:
        """Return the names of all column families (``allColumnFamilyNames``)."""

    @abstractmethod
    def abort(self) -> None:
        """Give the store back without a commit; once it has ended, nothing happens (``abort``)."""

    @abstractmethod
    def release(self) -> None:
        """Give the store back (``release``): the same as `abort` for a store that is only read."""


class StateStore(ReadStateStore):
    """One version of a store, and the changes that make the next version of it (``StateStore``).

    Reading shows the changes that were made so far. `commit` or `abort` ends the store; after that only `metrics`,
    `has_committed` and `checkpoint_info` may be asked for.
    """

    @abstractmethod
    def put(self, key: bytes, value: bytes, family: str = DEFAULT_FAMILY) -> None:
        """Set the value of a key; in a family with several, the one value (``put``)."""

    @abstractmethod
    def put_list(self, key: bytes, values: Sequence[bytes], family: str = DEFAULT_FAMILY) -> None:
        """Set all values of a key, at least one (``putList``)."""

    @abstractmethod
    def merge(self, key: bytes, value: bytes, family: str = DEFAULT_FAMILY) -> None:
        """Add a value behind those of a key, without reading them (``merge``)."""

    @abstractmethod
    def merge_list(self, key: bytes, values: Sequence[bytes], family: str = DEFAULT_FAMILY) -> None:
        """Add values behind those of a key, without reading them (``mergeList``)."""

    @abstractmethod
    def remove(self, key: bytes, family: str = DEFAULT_FAMILY) -> None:
        """Remove a key, if it is there (``remove``)."""

    @abstractmethod
    def delete_range(self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY) -> None:
        """Remove the keys from ``start`` on and before ``end``; None leaves an end open (``deleteRange``)."""

    @abstractmethod
    def create_column_family_if_absent(self, family: str, *, multiple_values_per_key: bool = False) -> None:
        """Make sure that there is a column family of this kind (``createColFamilyIfAbsent``).

        Raises `InvalidUse` if there is one of the other kind.
        """

    @abstractmethod
    def remove_column_family_if_exists(self, family: str) -> bool:
        """Remove a column family with all its keys, and say whether it was there (``removeColFamilyIfExists``)."""

    @abstractmethod
    def commit(self) -> int:
        """Write the changes, and return the new version (``commit``).

        If it ends with an error below `FilesError`, or with `InvalidUse` for a value that is too large, nothing was
        written. After these or `CommitUnknown` the store still has its changes, and may be committed again or aborted.
        """

    @property
    @abstractmethod
    def has_committed(self) -> bool:
        """Whether the changes were committed (``hasCommitted``)."""

    @property
    @abstractmethod
    def metrics(self) -> StateStoreMetrics:
        """Numbers about the store (``metrics``)."""

    @property
    @abstractmethod
    def checkpoint_info(self) -> CheckpointInfo:
        """What the driver needs to know of the commit (``getStateStoreCheckpointInfo``).

        Raises `InvalidUse` before the commit.
        """

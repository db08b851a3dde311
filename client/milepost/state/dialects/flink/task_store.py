"""The store of one task: one version after the other, and which states lie in it."""

from __future__ import annotations

from collections.abc import Mapping

from milepost.state.errors import Incompatible
from milepost.state.store import CheckpointInfo, FileStateStoreProvider, StateStore, StateStoreId


class TaskStore:
    """Opens a version of a task's store, commits it, and goes on from that commit, which is opened once it is needed.

    ``states`` has the kind of each state that was ever registered, by the name of its column family.
    """

    def __init__(
        self, provider: FileStateStoreProvider, states: Mapping[str, str], version: int = 0, id: str | None = None
    ) -> None:
        """Open a version. ``provider`` is this store's alone, and closed with it."""
        self.states = dict(states)
        self._provider = provider
        self._at: tuple[int, str | None] = (version, id)
        try:
            self._store: StateStore | None = provider.get_store(version, id)
        except BaseException:
            provider.close()
            raise

    @property
    def id(self) -> StateStoreId:
        """Which store this is."""
        return self._provider.state_store_id

    @property
    def store(self) -> StateStore:
        """The version that is open to be changed. It is another one after each commit."""
        if self._store is None:
            self._store = self._provider.get_store(*self._at)
        return self._store

    def register(self, family: str, kind: str, *, multiple: bool = False) -> None:
        """Make sure that there is a state of this kind. Raises `Incompatible` if there is one of another."""
        before = self.states.get(family, kind)
        if before != kind:
            raise Incompatible(f"the state {family} was written as {before!r}, and cannot go on as {kind!r}")
        self.store.create_column_family_if_absent(family, multiple_values_per_key=multiple)
        self.states[family] = kind

    def drop(self, family: str) -> None:
        """Remove a state with all it has, if it is there."""
        self.store.remove_column_family_if_exists(family)
        self.states.pop(family, None)

    def commit(self) -> CheckpointInfo:
        """Commit what changed. Raises what `StateStore.commit` does, and may then be called again."""
        store = self.store
        store.commit()
        info = store.checkpoint_info
        self._at, self._store = (info.version, info.id), None
        return info

    def close(self) -> None:
        """Let go of what was not committed, and of the provider."""
        if self._store is not None:
            self._store.abort()
        self._provider.close()

"""The state store of one task, with the kinds of the states in it."""

from __future__ import annotations

from collections.abc import Mapping

from milepost.state.errors import Incompatible
from milepost.state.store import CheckpointInfo, FileStateStoreProvider, StateStore, StateStoreId


class TaskStore:
    """The state store of one task. It opens a version, commits it, and opens the committed version again when it is
    next used. ``states`` has the kind of each state that was ever registered, by the name of its column family.
    """

    def __init__(
        self, provider: FileStateStoreProvider, states: Mapping[str, str], version: int = 0, id: str | None = None
    ) -> None:
        """Open a version of the state store; 0 is the empty version. `close` closes ``provider`` too."""
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
        """The id of the state store."""
        return self._provider.state_store_id

    @property
    def store(self) -> StateStore:
        """The version of the state store that is open for changes. After a commit it is another object."""
        if self._store is None:
            self._store = self._provider.get_store(*self._at)
        return self._store

    def register(self, family: str, kind: str, *, multiple: bool = False) -> None:
        """Create the column family of a state of this kind, unless it exists. Raises `Incompatible` if it exists as
        another kind.
        """
        before = self.states.get(family, kind)
        if before != kind:
            raise Incompatible(f"the state {family} was written as {before!r}, and cannot go on as {kind!r}")
        self.store.create_column_family_if_absent(family, multiple_values_per_key=multiple)
        self.states[family] = kind

    def drop(self, family: str) -> None:
        """Remove a state with its content, if it exists."""
        self.store.remove_column_family_if_exists(family)
        self.states.pop(family, None)

    def commit(self) -> CheckpointInfo:
        """Commit the changes. Raises the errors of `StateStore.commit`. After an error the call may be repeated."""
        store = self.store
        store.commit()
        info = store.checkpoint_info
        self._at, self._store = (info.version, info.id), None
        return info

    def close(self) -> None:
        """Discard uncommitted changes, and close the provider."""
        if self._store is not None:
            self._store.abort()
        self._provider.close()

"""The blocking face of one store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from milepost.core.body import State
from milepost.core.campaign import campaign
from milepost.core.store import StoreOperations
from milepost.drivers.blocking import BlockingDriver
from milepost.types import Epoch, Handle, LockedHandles, Removal
from milepost.wire import MAX_PAGE


class StateHandleStore:
    """The handles of one store: the ten operations of Flink's StateHandleStore, the states, and the epoch.

    Any call may raise `Unavailable`, `ConnectionFailed` or `DeadlineExceeded` (nothing was applied); one that changes
    something also `OutcomeUnknown` (read back before anything else), `SessionLost`, and `Fenced` once a newer driver
    leads the store. Names that the service would refuse raise `InvalidName` at once.
    """

    def __init__(self, driver: BlockingDriver, operations: StoreOperations) -> None:
        self._driver = driver
        self._operations = operations

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._operations.store

    @property
    def session_id(self) -> str | None:
        """The session that acts; None for a store that was opened for reading."""
        return self._operations.acting.session

    @property
    def epoch(self) -> int | None:
        """The epoch that add, replace, remove and clear carry; None before `campaign`."""
        return self._operations.epoch

    def under(self, epoch: int) -> StateHandleStore:
        """A store that acts under a given epoch: for executors, which a driver told its own."""
        return StateHandleStore(self._driver, self._operations.under(epoch))

    def add_and_lock(
        self, name: str, state: State, labels: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> Handle:
        """Add a handle, locked by this session. Raises `AlreadyExists`.

        ``state`` is bytes, a path, a binary file or an iterable of bytes. What can be read twice (bytes, a path, a
        seekable file, a list) is sent again by retries, with its digest. A generator or pipe is sent once, after the
        leader was found by an `exists`: where the answer to it is lost this raises `OutcomeUnknown`, where a replica
        took the bytes and refused them `Unavailable`. ``timeout`` (seconds) replaces the client's.
        """
        return self._driver.run(self._operations.add_and_lock(name, state, labels, timeout))

    def replace(
        self,
        name: str,
        version: str,
        state: State,
        labels: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> Handle:
        """Set a new state where ``version`` is the current one. No ``labels`` keep the old ones.

        ``state`` and ``timeout`` are as in `add_and_lock`. Raises `NotExist`, `NotLocked`, and `VersionMismatch`,
        whose ``current`` is the version that is there.
        """
        return self._driver.run(self._operations.replace(name, version, state, labels, timeout))

    def exists(self, name: str) -> str | None:
        """The version of the handle, or None. Raises `Corrupt`."""
        return self._driver.run(self._operations.exists(name))

    def get(self, name: str) -> Handle:
        """The record of a handle, without a lock. Raises `NotExist`."""
        return self._driver.run(self._operations.get(name))

    def get_and_lock(self, name: str) -> Handle:
        """The record of a handle, locked by this session. Raises `NotExist`, `Corrupt` (and then holds no lock)."""
        return self._driver.run(self._operations.get_and_lock(name))

    def read(self, name: str, version: str | None = None) -> bytes:
        """The state, verified against size and digest; with ``version`` only that one.

        Raises `NotExist`, `VersionMismatch`, `BlobMissing`, `Corrupt`, `StateTruncated`.
        """
        return b"".join(self._driver.stream(self._operations.download(name, version)))

    @contextmanager
    def open(self, name: str, version: str | None = None) -> Iterator[Iterator[bytes]]:
        """The state in chunks, for one too large for memory. Raises as `read` does, while entering or iterating.

        The last chunk comes only after size and digest were verified. Leaving the block early is fine.
        """
        with closing(self._driver.stream(self._operations.download(name, version))) as chunks:
            next(chunks)
            yield chunks

    def get_all_and_lock(self) -> LockedHandles:
        """Every handle, by name and locked by this session, and those whose record is damaged."""
        return self._driver.run(self._operations.get_all_and_lock())

    def get_all_handles(self, page: int = MAX_PAGE) -> Iterator[Handle]:
        """Every handle, by name, without locks; fetched by ``page`` (1 to 1000). May include handles being removed.

        Those whose record is damaged are logged as a warning; `get_all_and_lock` returns them.
        """
        return self._driver.stream(self._operations.get_all_handles(page))

    def release_and_try_remove(self, name: str, version: str | None = None, *, timeout: float | None = None) -> Removal:
        """Release this session's lock, and remove the handle with its state unless other sessions hold it.

        What does not exist counts as removed. With ``version`` only that one: raises `VersionMismatch`. Raises
        `DiscardFailed` where the removal stands but the state's bytes are still there; a repeated call finishes it.
        ``timeout`` (seconds) replaces the client's.
        """
        return self._driver.run(self._operations.release_and_try_remove(name, version, timeout))

    def clear_entries(self) -> int:
        """Remove every handle, whoever holds it; returns how many. The states are left to the service's collector."""
        return self._driver.run(self._operations.clear_entries())

    def release(self, name: str) -> None:
        """Release this session's lock on a handle, if it holds one."""
        self._driver.run(self._operations.release(name))

    def release_all(self) -> None:
        """Release every lock of this session in this store."""
        self._driver.run(self._operations.release_all())

    def campaign(self, wait: float | None = 30.0) -> Epoch:
        """Wait up to ``wait`` seconds (None: for ever) to lead this store, and from then on act under that epoch.

        Outages are waited out, too. Raises `EpochHeld` when the wait ran out.
        """
        return self._driver.run(campaign(self._operations, wait))

    def current_epoch(self) -> Epoch:
        """The epoch as the service knows it."""
        return self._driver.run(self._operations.current_epoch())

    def resign(self) -> None:
        """Give the epoch up, so that another driver can campaign at once. Raises `Fenced` if another holds it."""
        self._driver.run(self._operations.resign())

"""The blocking API of one store of handles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from milepost.core.body import State
from milepost.core.campaign import campaign
from milepost.core.store import StoreOperations
from milepost.drivers.blocking import BlockingDriver
from milepost.files import JobFiles
from milepost.types import Epoch, FileCredential, Handle, LockedHandles, Removal
from milepost.wire import MAX_PAGE


class StateHandleStore:
    """The handles of one store: the ten operations of Flink's StateHandleStore, their states, and the epoch.

    Any call may raise `Unavailable`, `ConnectionFailed` or `DeadlineExceeded`: in all three cases nothing was applied.
    A call that changes something may also raise `OutcomeUnknown` (read back before anything else), `StorageFull`,
    `SessionLost`, and `Fenced` once a newer driver leads the store; in a store that was opened for reading it raises
    `InvalidRequest`. Names that the service would refuse raise `InvalidName` at once.
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
        """The id of the session in whose name the store is changed; None for a store that was opened for reading."""
        return self._operations.acting.session

    @property
    def epoch(self) -> int | None:
        """The epoch under which this object adds, replaces, removes and clears.

        `campaign` and `under` set it; before them, and after `resign`, it is None.
        """
        return self._operations.epoch

    @property
    def files(self) -> JobFiles:
        """What is kept of the files of the job: cuts, pins, and whether they are whole."""
        return JobFiles(self._driver, self._operations)

    def under(self, epoch: int) -> StateHandleStore:
        """Return this store under a given epoch, for executors that got the epoch from their driver."""
        return StateHandleStore(self._driver, self._operations.under(epoch))

    def add_and_lock(
        self, name: str, state: State, labels: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> Handle:
        """Add a handle, locked by this session. Raises `AlreadyExists`.

        ``state`` is bytes, a path, a binary file or an iterable of bytes. A state that can be read twice (bytes, a
        path, a seekable file, a list) is sent with its digest, and again if a retry is needed. A generator or a pipe
        can be sent only once, so the leader is looked for first. With such a state, the call raises `OutcomeUnknown` if
        the answer is lost, and `Unavailable` if a replica took the bytes and refused them. ``timeout`` (seconds)
        replaces the client's.
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
        """Set a new state if ``version`` is the current one. Without ``labels`` the handle keeps its labels.

        ``state`` and ``timeout`` are as in `add_and_lock`. Raises `NotExist`, `NotLocked`, and `VersionMismatch`, whose
        ``current`` is the current version.
        """
        return self._driver.run(self._operations.replace(name, version, state, labels, timeout))

    def exists(self, name: str) -> str | None:
        """Return the version of the handle, or None if there is no such handle. Raises `Corrupt`."""
        return self._driver.run(self._operations.exists(name))

    def get(self, name: str) -> Handle:
        """Return the record of a handle, without locking it. Raises `NotExist`, `Corrupt`."""
        return self._driver.run(self._operations.get(name))

    def get_and_lock(self, name: str) -> Handle:
        """Lock a handle for this session and return its record.

        Raises `NotExist`, `Corrupt` (and then holds no lock).
        """
        return self._driver.run(self._operations.get_and_lock(name))

    def read(self, name: str, version: str | None = None) -> bytes:
        """Read a state, verified against its size and digest. With ``version`` only that version is read.

        Raises `NotExist`, `VersionMismatch`, `BlobMissing`, `Corrupt`, `StateTruncated`.
        """
        return b"".join(self._driver.stream(self._operations.download(name, version)))

    @contextmanager
    def open(self, name: str, version: str | None = None) -> Iterator[Iterator[bytes]]:
        """Read a state in chunks, for one too large for memory. Raises the errors of `read`, on entering or while
        iterating.

        The last chunk comes only after size and digest were verified. The block may be left early.
        """
        with closing(self._driver.stream(self._operations.download(name, version))) as chunks:
            next(chunks)  # empty: it only shows that the state can be read
            yield chunks

    def get_all_and_lock(self) -> LockedHandles:
        """Lock every handle for this session; return their records, sorted by name, and which records are damaged."""
        return self._driver.run(self._operations.get_all_and_lock())

    def get_all_handles(self, page: int = MAX_PAGE) -> Iterator[Handle]:
        """Iterate over all handles by name, without locking them; ``page`` (1 to 1000) are fetched at a time.

        Handles that are being removed may be among them. Those whose record is damaged are logged as a warning;
        `get_all_and_lock` returns them.
        """
        return self._driver.stream(self._operations.get_all_handles(page))

    def release_and_try_remove(self, name: str, version: str | None = None, *, timeout: float | None = None) -> Removal:
        """Release this session's lock, and remove the handle with its state unless other sessions hold it.

        A handle that does not exist counts as removed. With ``version`` only that version is removed: raises
        `VersionMismatch`. Raises `DiscardFailed` if the handle was removed but its bytes are still there; repeating the
        call deletes them. ``timeout`` (seconds) replaces the client's.
        """
        return self._driver.run(self._operations.release_and_try_remove(name, version, timeout))

    def clear_entries(self) -> int:
        """Remove every handle, whoever holds it; return how many there were. The service deletes their states later."""
        return self._driver.run(self._operations.clear_entries())

    def release(self, name: str) -> None:
        """Release this session's lock on a handle, if it holds one."""
        self._driver.run(self._operations.release(name))

    def release_all(self) -> None:
        """Release every lock of this session in this store."""
        self._driver.run(self._operations.release_all())

    def campaign(self, wait: float | None = 30.0) -> Epoch:
        """Wait up to ``wait`` seconds (None: for ever) to lead this store; this object then acts under the new epoch.

        An outage does not end the wait. If the wait ends without the epoch, raises `EpochHeld`, or the error of the
        outage that still goes on. `SessionLost` is raised at once.
        """
        return self._driver.run(campaign(self._operations, wait))

    def current_epoch(self) -> Epoch:
        """Return the store's current epoch, whoever holds it; the one of this object is `epoch`."""
        return self._driver.run(self._operations.current_epoch())

    def file_credential(self) -> FileCredential | None:
        """Return the credential with which Hadoop reaches this store's files under the epoch that this session holds.

        None means that the service has no tokens, so that none is needed. Raises `Fenced` if the session does not hold
        the epoch.
        """
        return self._driver.run(self._operations.file_credential())

    def resign(self) -> None:
        """Give up the epoch, so that another driver can get it at once. Raises `Fenced` if another session holds it."""
        self._driver.run(self._operations.resign())

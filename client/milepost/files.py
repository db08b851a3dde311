"""The blocking API of the files of a job."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager

from milepost.core.body import State
from milepost.core.file_operations import FileOperations, SnapshotOperations
from milepost.core.objects import NotPicklable, store_repr
from milepost.core.progress import Progress
from milepost.core.store_calls import StoreCalls
from milepost.drivers.blocking import BlockingDriver
from milepost.types import Clone, JobFile, KeptSnapshots, StateAddition, StateReplacement, Verification, WrittenFile
from milepost.wire import MAX_PAGE


class JobFiles(NotPicklable):
    """The files of a job, which Spark reads and writes at its checkpoint location, with their snapshots and savepoints.

    Writes carry the epoch of the store and need no session, so an executor that got the epoch writes with
    ``client.store(job).under(epoch).files``. Paths are relative to the root of the job's tree. The directory
    ``.snapshot`` is read-only. The grant of the next epoch deletes files under temporary names (``.x.tmp``,
    ``__temp…``).

    A snapshot shows the files right after a query committed a batch; the service keeps the last ten snapshots of each
    query. The errors and ``timeout`` are those of `StateHandleStore`. Threads may share the object.
    """

    def __init__(self, driver: BlockingDriver, calls: StoreCalls) -> None:
        self._driver = driver
        self._calls = calls
        self._operations = SnapshotOperations(calls)
        self._of_files = FileOperations(calls)

    def __repr__(self) -> str:
        return store_repr(self, self._calls)

    def write(
        self,
        path: str,
        content: State,
        *,
        only_new: bool = False,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> WrittenFile:
        """Write a file, once and whole, under this store's epoch.

        ``content`` and ``progress`` are as in `StateHandleStore.add_and_lock`. The call makes missing parent
        directories. With ``only_new`` the path must be free; otherwise an existing file is replaced. Readers see the
        whole file or nothing of it. Raises `Fenced` if the epoch is not the current one, `AlreadyExists` and
        `NotDirectory`.
        """
        operation = self._of_files.write(path, content, only_new=only_new, timeout=timeout, progress=progress)
        return self._driver.run(operation)

    def get(self, path: str, *, timeout: float | None = None) -> JobFile:
        """Return the record of a file; its ``age`` and ``epoch`` are None, because only `list` gets them. Raises
        `NotExist`, also if the path is a directory.
        """
        return self._driver.run(self._of_files.get(path, timeout))

    def read(
        self,
        path: str,
        start: int = 0,
        length: int | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> bytes:
        """Read a file and verify its digest; or read a part: ``length`` bytes from ``start``. The client cannot verify
        a part. The service verifies it if the file has at most 1 MiB; the part of a larger file is not verified.

        Fewer bytes come only at the end of the file. ``timeout`` bounds the whole call with all bytes; ``progress`` is
        as in `StateHandleStore.read`. Raises `NotExist`, `BlobMissing`, `Corrupt`, `StateTruncated`.
        """
        chunks = self._of_files.read(path, start=start, length=length, timeout=timeout, whole=True, progress=progress)
        return b"".join(self._driver.stream(chunks))

    @contextmanager
    def open(
        self,
        path: str,
        version: str | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Iterator[bytes]]:
        """Read a file in chunks, as `StateHandleStore.open` reads a state.

        The last chunk comes only after size and digest were verified. With ``version`` only that version of the file is
        read.
        """
        download = self._of_files.read(path, version, timeout=timeout, progress=progress)
        with closing(self._driver.stream(download)) as chunks:
            next(chunks)  # the first chunk is empty: it only shows that the file can be read
            yield chunks

    def list(
        self, directory: str = "", page_size: int = MAX_PAGE, *, timeout: float | None = None
    ) -> Iterator[JobFile]:
        """Iterate over the direct entries of a directory by name; ``page_size`` (1 to 1000) entries are fetched at a
        time, each page within ``timeout`` seconds.

        The directory ``.snapshot/<name>`` shows the snapshot of that name. Raises `NotExist`, `NotDirectory`.
        """
        return self._driver.stream(self._of_files.list_directory(directory, page_size, timeout))

    def make_directory(self, path: str, *, timeout: float | None = None) -> None:
        """Make a directory and its missing parents, unless it exists. Raises `NotDirectory` and `Fenced`."""
        self._driver.run(self._of_files.make_directory(path, timeout))

    def delete(self, path: str, *, recursive: bool = False, timeout: float | None = None) -> None:
        """Delete a file or a directory, if it exists; a directory that is not empty only if ``recursive``.

        Raises `NotEmpty` and `Fenced`.
        """
        self._driver.run(self._of_files.delete(path, recursive, timeout))

    def snapshots(self, *, timeout: float | None = None) -> KeptSnapshots:
        """Return the kept snapshots and savepoints. Raises `Corrupt`."""
        return self._driver.run(self._operations.kept_snapshots(timeout))

    def verify(self, *, digests: bool = False, timeout: float | None = None) -> Verification:
        """Check that the bytes of all present files, and of the files of each snapshot and savepoint, exist; with
        ``digests``, read all bytes and compare their digests.

        Checking many files takes long, so pass a ``timeout`` above the client's. Raises `Corrupt`.
        """
        return self._driver.run(self._operations.verify(digests, timeout))

    def make_savepoint(self, name: str, revision: int = 0, *, timeout: float | None = None) -> int:
        """Keep the snapshot at ``revision`` (0: the newest) as a savepoint ``name``; return its revision.

        Raises `NotExist` if there is no such snapshot, and `AlreadyExists` if the name already keeps another snapshot.
        """
        return self._driver.run(self._operations.make_savepoint(name, revision, timeout))

    def drop_savepoint(self, name: str, *, timeout: float | None = None) -> None:
        """Drop a savepoint. Raises `NotExist`."""
        self._driver.run(self._operations.drop_savepoint(name, timeout))

    def roll_back(
        self,
        revision: int,
        *,
        keep: Collection[str] = (),
        replace: StateReplacement | None = None,
        timeout: float | None = None,
    ) -> int:
        """Roll the files back to a snapshot or a savepoint, under this store's epoch, while no query of the job runs.

        The paths in ``keep``, and everything below them, stay unchanged. The service keeps later snapshots, and one of
        the present files, as `KeptSnapshots.passed_over`: rolling back to one of them undoes this rollback. The call
        does not compare the snapshot with the record of a Spark job; ``milepost files roll-back`` does, and refuses a
        snapshot without the offsets of the job's newest batch. Return ``revision``. Raises `NotExist` and `Fenced`;
        `Unavailable` while the service still removes files that were deleted earlier.

        ``replace`` replaces the state of a handle, at most 256 KiB, in the same commit: either the files go back and
        the handle has its new state, or nothing is changed. The session must hold a lock on the handle. `get` of the
        store returns the new version. Raises `VersionMismatch`, `NotLocked` and `TooLarge`.
        """
        return self._driver.run(self._operations.roll_back(revision, keep, replace, timeout))

    def clone(
        self,
        source: str,
        snapshot: str,
        *,
        files: Mapping[str, bytes] | None = None,
        add: StateAddition | None = None,
        timeout: float | None = None,
    ) -> Clone:
        """Begin this job with copies of the files in a snapshot of the job ``source``, under this store's epoch.

        ``snapshot`` is `Savepoint.name` or `Snapshot.name`. This job must have no files yet; afterwards it has all of
        them or none. Copying many bytes takes long, so pass a ``timeout`` above the client's. Raises `NotExist`,
        `NotEmpty`, `Fenced`, and `InvalidRequest` if a file contains the path of the directory of ``source``, to which
        the copy would still refer.

        The files that ``files`` names, at most four of the snapshot's, have these bytes in place of the original ones.
        ``add`` adds a handle, at most 256 KiB, in the same commit, locked for this session: either the job has the
        files and the handle, or nothing is changed. Raises `AlreadyExists` and `TooLarge`.
        """
        return self._driver.run(self._operations.clone(source, snapshot, files or {}, add, timeout))


def walk(files: JobFiles, directory: str = "") -> Iterator[JobFile]:
    """Yield all files and directories below ``directory``, each directory before its content. Raises `NotExist`."""
    for entry in files.list(directory):
        yield entry
        if entry.directory:
            yield from walk(files, entry.path)

"""The asynchronous client for the files of a job, their snapshots and savepoints."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import aclosing, asynccontextmanager

from milepost.core.body import AsyncState
from milepost.core.file_operations import FileOperations, SnapshotOperations
from milepost.core.objects import NotPicklable, store_repr
from milepost.core.progress import Progress
from milepost.core.store_calls import StoreCalls
from milepost.drivers.asynchronous import AsyncDriver
from milepost.types import Clone, JobFile, KeptSnapshots, StateAddition, StateReplacement, Verification, WrittenFile
from milepost.wire import MAX_PAGE


class AsyncJobFiles(NotPicklable):
    """The files of a job, with their snapshots and savepoints.

    The methods are those of `milepost.JobFiles`, with the same meaning, as coroutines.
    """

    def __init__(self, driver: AsyncDriver, calls: StoreCalls) -> None:
        self._driver = driver
        self._calls = calls
        self._operations = SnapshotOperations(calls)
        self._of_files = FileOperations(calls)

    def __repr__(self) -> str:
        return store_repr(self, self._calls)

    async def write(
        self,
        path: str,
        content: AsyncState,
        *,
        only_new: bool = False,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> WrittenFile:
        """Write a complete file under this store's epoch. Readers never see a part of the file.

        The call makes missing parent directories. With ``only_new`` it raises `AlreadyExists` if the path exists;
        otherwise it replaces an existing file. ``content`` is given as the ``state`` of
        `AsyncStateHandleStore.add_and_lock`, and ``progress`` is as there. Raises `Fenced` if the epoch is not the
        current one, and `NotDirectory` if a parent is a file.
        """
        operation = self._of_files.write(path, content, only_new=only_new, timeout=timeout, progress=progress)
        return await self._driver.run(operation)

    async def get(self, path: str, *, timeout: float | None = None) -> JobFile:
        """Return the record of a file; its ``age`` and ``epoch`` are None, because only `list` gets them. Raises
        `NotExist`, also if the path is a directory.
        """
        return await self._driver.run(self._of_files.get(path, timeout))

    async def read(
        self,
        path: str,
        start: int = 0,
        length: int | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> bytes:
        """Read a file and verify its digest; or read only ``length`` bytes from ``start``, a part, which has no digest.

        The service verifies a part if the file has at most 1 MiB; the part of a larger file is not verified. A part is
        shorter than ``length`` only at the end of the file. ``timeout`` bounds the whole call with all bytes;
        ``progress`` is as in `AsyncStateHandleStore.read`. Raises `NotExist`, `BlobMissing`, `Corrupt`,
        `StateTruncated`.
        """
        chunks = self._of_files.read(path, start=start, length=length, timeout=timeout, whole=True, progress=progress)
        return b"".join([chunk async for chunk in self._driver.stream(chunks)])

    @asynccontextmanager
    async def open(
        self,
        path: str,
        version: str | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Read a file in chunks, which the ``async with`` block iterates over, as `AsyncStateHandleStore.open` does for
        a state.

        The last chunk comes only after the size and the digest were verified. With ``version`` only that version of the
        file is read; the call raises `VersionMismatch` for any other.
        """
        download = self._of_files.read(path, version, timeout=timeout, progress=progress)
        async with aclosing(self._driver.stream(download)) as chunks:
            await anext(chunks)  # the first chunk is empty: it only shows that the file can be read
            yield chunks

    def list(
        self, directory: str = "", page_size: int = MAX_PAGE, *, timeout: float | None = None
    ) -> AsyncIterator[JobFile]:
        """Iterate over the direct entries of a directory by name; ``page_size`` (1 to 1000) entries are fetched at a
        time, each page within ``timeout`` seconds.

        The directory ``.snapshot/<name>`` shows the snapshot of that name. Raises `NotExist`, `NotDirectory`.
        """
        return self._driver.stream(self._of_files.list_directory(directory, page_size, timeout))

    async def make_directory(self, path: str, *, timeout: float | None = None) -> None:
        """Make a directory and its missing parents, unless it exists. Raises `NotDirectory` and `Fenced`."""
        await self._driver.run(self._of_files.make_directory(path, timeout))

    async def delete(self, path: str, *, recursive: bool = False, timeout: float | None = None) -> None:
        """Delete a file or a directory; a path that does not exist is no error. Raises `Fenced`, and `NotEmpty` for a
        directory that is not empty, unless ``recursive``.
        """
        await self._driver.run(self._of_files.delete(path, recursive, timeout))

    async def snapshots(self, *, timeout: float | None = None) -> KeptSnapshots:
        """Return the snapshots and savepoints of the job's files that the service keeps. Raises `Corrupt` if their
        record is damaged.
        """
        return await self._driver.run(self._operations.kept_snapshots(timeout))

    async def verify(self, *, digests: bool = False, timeout: float | None = None) -> Verification:
        """Check that the bytes of all present files, and of the files of each snapshot and savepoint, exist; with
        ``digests``, read all bytes and compare their digests.

        Checking many files takes long, so pass a ``timeout`` above the client's. Raises `Corrupt`.
        """
        return await self._driver.run(self._operations.verify(digests, timeout))

    async def make_savepoint(self, name: str, revision: int = 0, *, timeout: float | None = None) -> int:
        """Keep the snapshot at ``revision`` (0: the newest) as the savepoint ``name``; return the snapshot's revision.

        Raises `NotExist` if there is no such snapshot, and `AlreadyExists` if the name already keeps another snapshot.
        """
        return await self._driver.run(self._operations.make_savepoint(name, revision, timeout))

    async def drop_savepoint(self, name: str, *, timeout: float | None = None) -> None:
        """Drop the savepoint ``name``, which keeps its snapshot no longer. Raises `NotExist`."""
        await self._driver.run(self._operations.drop_savepoint(name, timeout))

    async def roll_back(
        self,
        revision: int,
        *,
        keep: Collection[str] = (),
        replace: StateReplacement | None = None,
        timeout: float | None = None,
    ) -> int:
        """Roll the files back to the snapshot or savepoint at ``revision``, under this store's epoch, and return
        ``revision``. No query of the job may be running.

        The paths in ``keep``, and everything below them, stay unchanged. Later snapshots and the present files are kept
        as passed over (`KeptSnapshots`). The call does not compare the snapshot with the record of a Spark job;
        ``milepost files roll-back`` does, and refuses a snapshot without the offsets of the job's newest batch. Raises
        `NotExist` and `Fenced`; `Unavailable` while the service still removes files that were deleted earlier.

        ``replace`` replaces the state of a handle, at most 256 KiB, in the same commit: either the files go back and
        the handle has its new state, or nothing is changed. The session must hold a lock on the handle. `get` of the
        store returns the new version. Raises `VersionMismatch`, `NotLocked` and `TooLarge`.
        """
        return await self._driver.run(self._operations.roll_back(revision, keep, replace, timeout))

    async def clone(
        self,
        source: str,
        snapshot: str,
        *,
        files: Mapping[str, bytes] | None = None,
        add: StateAddition | None = None,
        timeout: float | None = None,
    ) -> Clone:
        """Begin this job with copies of the files in a snapshot of the job ``source``, under this store's epoch; return
        the number of copied files and bytes.

        ``snapshot`` is `Savepoint.name` or `Snapshot.name`. This job must have no files yet; if the call fails, it
        still has none. Copying many bytes takes long, so pass a ``timeout`` above the client's. Raises `NotExist`,
        `NotEmpty`, `Fenced`, and `InvalidRequest` if the content of a file names the directory of ``source``.

        The files that ``files`` names, at most four of the snapshot's, have these bytes in place of the original ones.
        ``add`` adds a handle, at most 256 KiB, in the same commit, locked for this session: either the job has the
        files and the handle, or nothing is changed. Raises `AlreadyExists` and `TooLarge`.
        """
        return await self._driver.run(self._operations.clone(source, snapshot, files or {}, add, timeout))

"""The asynchronous API of the files of a job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import aclosing, asynccontextmanager

from milepost.core.body import AsyncState
from milepost.core.file_operations import FileOperations, SnapshotOperations
from milepost.core.objects import NotPicklable, store_repr
from milepost.core.progress import Progress
from milepost.core.store_calls import StoreCalls
from milepost.drivers.asynchronous import AsyncDriver
from milepost.types import Clone, JobFile, KeptSnapshots, Verification, WrittenFile
from milepost.wire import MAX_PAGE


class AsyncJobFiles(NotPicklable):
    """The files of a job, and what is kept of them.

    These are the methods of `milepost.JobFiles`, with the same meaning, to be awaited.
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
        """Write a file, once and whole, under this store's epoch.

        ``content`` and ``progress`` are as in `AsyncStateHandleStore.add_and_lock`. The directories above it are made.
        With ``only_new`` nothing may be there; otherwise a file that is there is replaced. Others see it whole or not
        at all. Raises `Fenced` under any other epoch than the current one, `AlreadyExists` and `NotDirectory`.
        """
        operation = self._of_files.write(path, content, only_new=only_new, timeout=timeout, progress=progress)
        return await self._driver.run(operation)

    async def get(self, path: str, *, timeout: float | None = None) -> JobFile:
        """Return the record of a file, without its age and epoch. Raises `NotExist`, also for a directory."""
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
        """Read a file, verified against its digest; or ``length`` bytes of it from ``start`` on, which cannot be: the
        service verifies them for a file up to 1 MiB, and nobody for a larger one.

        Fewer come only where the file ends. ``timeout`` bounds the whole call with all bytes, and ``progress`` is told
        of them. Raises `NotExist`, `BlobMissing`, `Corrupt`, `StateTruncated`.
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
        """Read a file in chunks, as `AsyncStateHandleStore.open` reads a state.

        The last chunk comes only after size and digest were verified. With ``version`` only that file is read.
        """
        download = self._of_files.read(path, version, timeout=timeout, progress=progress)
        async with aclosing(self._driver.stream(download)) as chunks:
            await anext(chunks)  # empty: it only shows that the file can be read
            yield chunks

    def list(
        self, directory: str = "", page_size: int = MAX_PAGE, *, timeout: float | None = None
    ) -> AsyncIterator[JobFile]:
        """Iterate over what lies right in a directory, by name; ``page_size`` (1 to 1000) entries are fetched at a
        time, each page within ``timeout`` seconds.

        ``.snapshot/`` and a snapshot's name is the directory that shows it. Raises `NotExist`, `NotDirectory`.
        """
        return self._driver.stream(self._of_files.list_directory(directory, page_size, timeout))

    async def make_directory(self, path: str, *, timeout: float | None = None) -> None:
        """Make a directory, with those above it, if it is not there. Raises `NotDirectory` and `Fenced`."""
        await self._driver.run(self._of_files.make_directory(path, timeout))

    async def delete(self, path: str, *, recursive: bool = False, timeout: float | None = None) -> None:
        """Delete a file or a directory, if it is there; one that is not empty only if ``recursive``.

        Raises `NotEmpty` and `Fenced`.
        """
        await self._driver.run(self._of_files.delete(path, recursive, timeout))

    async def snapshots(self, *, timeout: float | None = None) -> KeptSnapshots:
        """Return the snapshots and savepoints that are kept. Raises `Corrupt`."""
        return await self._driver.run(self._operations.kept_snapshots(timeout))

    async def verify(self, *, digests: bool = False, timeout: float | None = None) -> Verification:
        """Look whether the bytes of all files are there, now and at each snapshot and savepoint; with ``digests``, read
        them all.

        Many files take long: give it a ``timeout`` above the client's. Raises `Corrupt`.
        """
        return await self._driver.run(self._operations.verify(digests, timeout))

    async def make_savepoint(self, name: str, revision: int = 0, *, timeout: float | None = None) -> int:
        """Keep the snapshot at ``revision``, or the newest if that is 0, under a name; return its revision.

        Raises `NotExist` if there is no such snapshot, and `AlreadyExists` if the name keeps another one.
        """
        return await self._driver.run(self._operations.make_savepoint(name, revision, timeout))

    async def drop_savepoint(self, name: str, *, timeout: float | None = None) -> None:
        """Drop a savepoint. Raises `NotExist`."""
        await self._driver.run(self._operations.drop_savepoint(name, timeout))

    async def roll_back(self, revision: int, *, keep: Collection[str] = (), timeout: float | None = None) -> int:
        """Let the files be those of a snapshot or a savepoint again, under this store's epoch, while no query of the
        job runs.

        What is at the paths ``keep``, and below them, stays as it is. Snapshots that came later, and what
        is there now, are kept as passed over (`KeptSnapshots`). It is not compared with the record of a Spark job: to a
        snapshot without the offsets of its newest batch, ``milepost files roll-back`` refuses to go back. Raises
        `NotExist` and `Fenced`; `Unavailable` while what was deleted before is still being cleared away.
        """
        return await self._driver.run(self._operations.roll_back(revision, keep, timeout))

    async def clone(self, source: str, snapshot: str, *, timeout: float | None = None) -> Clone:
        """Begin this job with copies of the files in a snapshot of the job ``source``, under this store's epoch.

        ``snapshot`` is `Savepoint.name` or `Snapshot.name`. There must be no files yet; afterwards there are
        all or none. Many bytes take long: give it a ``timeout`` above the client's. Raises `NotExist`, `NotEmpty`,
        `Fenced`, and `InvalidRequest` if a file has the directory of ``source`` in it.
        """
        return await self._driver.run(self._operations.clone(source, snapshot, timeout))

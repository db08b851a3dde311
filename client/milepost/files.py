"""The blocking API of the files of a job."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager

from milepost.core.body import State
from milepost.core.file_operations import FileOperations, SnapshotOperations
from milepost.core.objects import NotPicklable, store_repr
from milepost.core.progress import Progress
from milepost.core.store_calls import StoreCalls
from milepost.drivers.blocking import BlockingDriver
from milepost.types import Clone, JobFile, KeptSnapshots, Verification, WrittenFile
from milepost.wire import MAX_PAGE


class JobFiles(NotPicklable):
    """The files of a job, which Spark reads and writes at its checkpoint location, and what is kept of them.

    They are written under the epoch of the store and need no session, so an executor that got the epoch writes with
    ``client.store(job).under(epoch).files``. Paths are relative to the root of the job's tree. Nothing is written in
    ``.snapshot``, and files under temporary names (``.x.tmp``, ``__temp…``) go with the grant of the next epoch.

    A snapshot is what they were right after a query committed a batch; the last ten of each query are kept. The errors
    are those of `StateHandleStore`, and so is ``timeout``. Threads may share it.
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

        ``content`` and ``progress`` are as in `StateHandleStore.add_and_lock`. The directories above it are made. With
        ``only_new`` nothing may be there; otherwise a file that is there is replaced. Others see it whole or not at
        all. Raises `Fenced` under any other epoch than the current one, `AlreadyExists` and `NotDirectory`.
        """
        operation = self._of_files.write(path, content, only_new=only_new, timeout=timeout, progress=progress)
        return self._driver.run(operation)

    def get(self, path: str, *, timeout: float | None = None) -> JobFile:
        """Return the record of a file, without its age and epoch. Raises `NotExist`, also for a directory."""
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
        """Read a file, verified against its digest; or ``length`` bytes of it from ``start`` on, which cannot be: the
        service verifies them for a file up to 1 MiB, and nobody for a larger one.

        Fewer come only where the file ends. ``timeout`` bounds the whole call with all bytes, and ``progress`` is told
        of them. Raises `NotExist`, `BlobMissing`, `Corrupt`, `StateTruncated`.
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

        The last chunk comes only after size and digest were verified. With ``version`` only that file is read.
        """
        download = self._of_files.read(path, version, timeout=timeout, progress=progress)
        with closing(self._driver.stream(download)) as chunks:
            next(chunks)  # empty: it only shows that the file can be read
            yield chunks

    def list(
        self, directory: str = "", page_size: int = MAX_PAGE, *, timeout: float | None = None
    ) -> Iterator[JobFile]:
        """Iterate over what lies right in a directory, by name; ``page_size`` (1 to 1000) entries are fetched at a
        time, each page within ``timeout`` seconds.

        ``.snapshot/`` and a snapshot's name is the directory that shows it. Raises `NotExist`, `NotDirectory`.
        """
        return self._driver.stream(self._of_files.list_directory(directory, page_size, timeout))

    def make_directory(self, path: str, *, timeout: float | None = None) -> None:
        """Make a directory, with those above it, if it is not there. Raises `NotDirectory` and `Fenced`."""
        self._driver.run(self._of_files.make_directory(path, timeout))

    def delete(self, path: str, *, recursive: bool = False, timeout: float | None = None) -> None:
        """Delete a file or a directory, if it is there; one that is not empty only if ``recursive``.

        Raises `NotEmpty` and `Fenced`.
        """
        self._driver.run(self._of_files.delete(path, recursive, timeout))

    def snapshots(self, *, timeout: float | None = None) -> KeptSnapshots:
        """Return the snapshots and savepoints that are kept. Raises `Corrupt`."""
        return self._driver.run(self._operations.kept_snapshots(timeout))

    def verify(self, *, digests: bool = False, timeout: float | None = None) -> Verification:
        """Look whether the bytes of all files are there, now and at each snapshot and savepoint; with ``digests``, read
        them all.

        Many files take long: give it a ``timeout`` above the client's. Raises `Corrupt`.
        """
        return self._driver.run(self._operations.verify(digests, timeout))

    def make_savepoint(self, name: str, revision: int = 0, *, timeout: float | None = None) -> int:
        """Keep the snapshot at ``revision``, or the newest if that is 0, under a name; return its revision.

        Raises `NotExist` if there is no such snapshot, and `AlreadyExists` if the name keeps another one.
        """
        return self._driver.run(self._operations.make_savepoint(name, revision, timeout))

    def drop_savepoint(self, name: str, *, timeout: float | None = None) -> None:
        """Drop a savepoint. Raises `NotExist`."""
        self._driver.run(self._operations.drop_savepoint(name, timeout))

    def roll_back(self, revision: int, *, keep: Collection[str] = (), timeout: float | None = None) -> int:
        """Let the files be those of a snapshot or a savepoint again, under this store's epoch, while no query of the
        job runs.

        What is at the paths ``keep``, and below them, stays as it is. Snapshots that came later, and what
        is there now, are kept as passed over (`KeptSnapshots`). It is not compared with the record of a Spark job: to a
        snapshot without the offsets of its newest batch, ``milepost files roll-back`` refuses to go back. Raises
        `NotExist` and `Fenced`; `Unavailable` while what was deleted before is still being cleared away.
        """
        return self._driver.run(self._operations.roll_back(revision, keep, timeout))

    def clone(self, source: str, snapshot: str, *, timeout: float | None = None) -> Clone:
        """Begin this job with copies of the files in a snapshot of the job ``source``, under this store's epoch.

        ``snapshot`` is `Savepoint.name` or `Snapshot.name`. There must be no files yet; afterwards there are
        all or none. Many bytes take long: give it a ``timeout`` above the client's. Raises `NotExist`, `NotEmpty`,
        `Fenced`, and `InvalidRequest` if a file has the directory of ``source`` in it.
        """
        return self._driver.run(self._operations.clone(source, snapshot, timeout))

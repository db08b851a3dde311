"""The blocking API of the files of a job."""

from __future__ import annotations

from collections.abc import Collection

from milepost.core.store import StoreOperations
from milepost.drivers.blocking import BlockingDriver
from milepost.types import Clone, KeptCuts, Verification


class JobFiles:
    """What is kept of the files of a job, which Spark reads and writes at its checkpoint location.

    A cut is what they were right after a query committed a batch; the last ten of each query are kept. The errors are
    those of `StateHandleStore`.
    """

    def __init__(self, driver: BlockingDriver, operations: StoreOperations) -> None:
        self._driver = driver
        self._operations = operations

    def cuts(self) -> KeptCuts:
        """Return the cuts and pins that are kept. Raises `Corrupt`."""
        return self._driver.run(self._operations.kept_cuts())

    def verify(self, *, digests: bool = False, timeout: float | None = None) -> Verification:
        """Look whether the bytes of all files are there, now and at each cut and pin; with ``digests``, read them all.

        ``timeout`` (seconds) replaces the client's: many files take long. Raises `Corrupt`.
        """
        return self._driver.run(self._operations.verify(digests, timeout))

    def pin(self, name: str, revision: int = 0) -> int:
        """Keep the cut at ``revision``, or the newest if that is 0, under a name; return its revision.

        Raises `NotExist` if there is no such cut, and `AlreadyExists` if the name keeps another one.
        """
        return self._driver.run(self._operations.pin(name, revision))

    def unpin(self, name: str) -> None:
        """Keep a cut no longer for the sake of its name. Raises `NotExist`."""
        self._driver.run(self._operations.unpin(name))

    def roll_back(self, revision: int, *, keep: Collection[str] = ()) -> int:
        """Let the files be those of a cut or a pin again, under this store's epoch, while no query of the job runs.

        What is at the paths ``keep``, and below them, stays as it is. Cuts that came later are kept no longer. Raises
        `NotExist` and `Fenced`; `Unavailable` while what was deleted before is still being cleared away.
        """
        return self._driver.run(self._operations.roll_back(revision, keep))

    def clone(self, source: str, snapshot: str, *, timeout: float | None = None) -> Clone:
        """Begin this job with copies of the files in a snapshot of the job ``source``, under this store's epoch.

        ``snapshot`` is `Pin.snapshot` or `Cut.snapshot`. There must be no files yet; afterwards there are all
        or none. ``timeout`` (seconds) replaces the client's: many bytes take long. Raises `NotExist`, `NotEmpty`,
        `Fenced`, and `InvalidRequest` if a file has the directory of ``source`` in it.
        """
        return self._driver.run(self._operations.clone(source, snapshot, timeout))

"""The service under a job of the trials: one server, or three replicas over ZooKeeper and S3; and what it tells.

Of three replicas' writes to S3 one in ten fails, all the time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import httpx

from testbed.replicated import ReplicatedTestbed
from testbed.server import ServerProcess
from tests.spark.clusters.written import Journal, Written
from tests.spark.trials.plan import FREEZE, KILL, LEADER
from tests.spark.trials.transactions import Transactions
from tests.support.network.failing_s3 import FailingS3, failing_s3

_SECONDS = 240.0
_S3_SHARE = 0.1
"""Of a hundred writes some would fail: small files are in their records, so there are few."""
_DENIED = re.compile(r'^milepost_requests_total{.*"403"} (\S+)$', re.MULTILINE)


class Served(Protocol):
    """A service that faults can meet."""

    @property
    def replicas(self) -> list[ServerProcess]: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def s3_errors(self) -> int:
        """How many of its writes to S3 have failed so far because a trial let them."""

    def leader(self) -> ServerProcess: ...

    def mend(self) -> None:
        """Start what does not run, wake what stands still, and wait until all serve."""


class Alone:
    """One server, with its pointers in a database and its blobs in files."""

    def __init__(self, directory: Path) -> None:
        self._server = ServerProcess(directory, "--log-level", "warning", pointers=f"embedded:{directory}/pointers")
        self._server.start(deadline=_SECONDS)
        self.replicas = [self._server]
        self.journal = Written(directory / "pointers")
        self.s3_errors = 0

    def leader(self) -> ServerProcess:
        return self._server

    def mend(self) -> None:
        if self._server.running:
            self._server.resume()
            self._server.wait_for("/leader", deadline=_SECONDS)
            if not self.journal.followed:
                self.journal.put_aside()
                self.journal.follow()
        else:
            self.journal.put_aside()
            self._server.start(deadline=_SECONDS)
            self.journal.follow()  # drivers wait for half a second between two tries, so none has written yet


class Several:
    """Three replicas."""

    def __init__(self, testbed: ReplicatedTestbed, directory: Path, failing: FailingS3) -> None:
        self._failing = failing
        self._testbed = testbed
        self.replicas = testbed.replicas
        self.journal = Transactions([directory / "zookeeper" / str(number) for number in (1, 2, 3)])

    @property
    def s3_errors(self) -> int:
        return self._failing.met.total()

    def leader(self) -> ServerProcess:
        return self._testbed.leader(_SECONDS)

    def mend(self) -> None:
        self._testbed.mend(_SECONDS)


@contextmanager
def served(directory: Path, replicas: int, seed: int) -> Iterator[Served]:
    """A service of so many replicas, until the end of the block; ``seed`` draws which writes to S3 fail, and how."""
    directory.mkdir(parents=True)
    if replicas == 1:
        alone = Alone(directory)
        with alone.leader():
            yield alone
    else:
        standing: list[FailingS3] = []
        with ExitStack() as stack:

            def before(url: str) -> str:
                standing.append(stack.enter_context(failing_s3(url, seed, _S3_SHARE)))
                return standing[0].url

            testbed = ReplicatedTestbed(directory, "--log-level", "warning", count=replicas, before_s3=before)
            yield Several(stack.enter_context(testbed).start(_SECONDS), directory, standing[0])


class Watched:
    """What can be asked of a service while parts of it are away."""

    def __init__(self, service: Served, job: str) -> None:
        self.service, self._job = service, job
        self._denied: dict[int, int] = {}
        self._http = httpx.Client(timeout=10.0)

    def committed(self, query: str) -> int | None:
        """The last batch that Spark has committed; -1 before the first, None while nobody answers."""
        for replica in self.service.replicas:
            try:
                answer = self._http.get(
                    f"{replica.url}/webhdfs/v1/jobs/{self._job}/{query}/commits", params={"op": "LISTSTATUS"}
                )
            except httpx.HTTPError:
                continue
            if answer.status_code == 200:
                names = [status["pathSuffix"] for status in answer.json()["FileStatuses"]["FileStatus"]]
                return max((int(name) for name in names if name.isdecimal()), default=-1)
            if answer.status_code == 404:
                return -1
        return None

    def denied(self) -> int:
        """How many requests were answered 403 so far, by all replicas in all their lives.

        A fence answers so, but also a replica that does not lead. What one answers between the last time that this was
        asked and its end is missing.
        """
        for replica in self.service.replicas:
            if replica.running:
                try:
                    metrics = self._http.get(f"{replica.url}/metrics").text
                except httpx.HTTPError:
                    continue
                self._denied[replica.pid] = sum(int(float(count)) for count in _DENIED.findall(metrics))
        return sum(self._denied.values())

    def strike(self, how: str, whom: str, seconds: float) -> Callable[[], None]:
        """Meet a replica with a fault that lasts for so long; what waits for the end of that, and mends it."""
        self.denied()
        leader = self.service.leader()
        others = [replica for replica in self.service.replicas if replica is not leader]
        victim = leader if whom == LEADER else others[0]
        if how == KILL:
            victim.kill()
        elif how == FREEZE:
            victim.pause()
        else:
            victim.stop(_SECONDS)
        over = time.monotonic() + seconds

        def mend() -> None:
            time.sleep(max(0.0, over - time.monotonic()))
            self.service.mend()

        return mend

    def close(self) -> None:
        self._http.close()

"""Coordinators: one that asks the service and never lets a task wait for it for long, and one in this process, for
tests and for jobs that run in one process.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from milepost.errors import Fenced, MilepostError
from milepost.instances import StateInstances
from milepost.state.errors import InvalidUse
from milepost.state.store.contract.coordinator import StateStoreCoordinator
from milepost.state.store.contract.values import StateStoreId
from milepost.types import ExecutorLocation, StateInstance
from milepost.wire import HOST, NAME

T = TypeVar("T")

_log = logging.getLogger(__name__)


def this_executor() -> ExecutorLocation:
    """Return a location for this process, with an id that no other process has and no later one will have.

    A Python worker is an executor by itself, since what it has loaded is in its own memory.
    """
    host = os.environ.get("SPARK_LOCAL_HOSTNAME") or socket.gethostname()
    executor = os.environ.get("SPARK_EXECUTOR_ID", "python")
    return ExecutorLocation(host, f"{executor}-{os.getpid()}-{secrets.token_hex(4)}")


class ServiceCoordinator(StateStoreCoordinator):
    """Asks the service of a job for the stores of one run of a query, under the epoch of the job's driver.

    If the service does not answer within ``timeout`` seconds, or refuses, that is logged, and it is asked no more for
    ``pause`` seconds; what a coordinator answers meanwhile, `StateStoreCoordinator` says. Where a newer driver leads,
    nothing is this executor's any more.
    """

    def __init__(
        self,
        instances: StateInstances,
        *,
        run: str,
        location: ExecutorLocation | None = None,
        timeout: float = 2.0,
        pause: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``instances`` is ``client.store(job).under(epoch).instances``. ``run`` is an id of the run of the query, such
        as Spark's ``runId``, and ``location`` says where this is; None means `this_executor`.
        """
        self.location = location or this_executor()
        if not (NAME.match(run) and NAME.match(self.location.executor) and HOST.match(self.location.host)):
            raise InvalidUse(f"the run {run!r}, or the place {self.location}, has characters that are not allowed")
        self._instances = instances
        self._run = run
        self._timeout = timeout
        self._pause = pause
        self._clock = clock
        self._record = ""
        self._asks_again = clock()
        self._deposed = False

    def report_active(self, store: StateStoreId, others: Collection[StateStoreId]) -> Collection[StateStoreId]:
        def ask() -> list[StateStoreId]:
            others_here = self._many(others)
            answer = self._instances.report(self.location, self._many([store]), others_here, timeout=self._timeout)
            self._record = self._record or answer.record  # a newer one counts once all was verified under it
            return _stores(answer.unload)

        return self._asked(ask, unasked=[], deposed=list(others))

    def verify_active(self, stores: Collection[StateStoreId]) -> Collection[StateStoreId]:
        def ask() -> list[StateStoreId]:
            known = self._record
            answer = self._instances.verify(self.location, self._many(stores), record=known, timeout=self._timeout)
            self._record = answer.record
            return _stores(answer.active)

        return self._asked(ask, unasked=list(stores), deposed=[])

    def locations(self, stores: Collection[StateStoreId]) -> Mapping[StateStoreId, ExecutorLocation]:
        def ask() -> dict[StateStoreId, ExecutorLocation]:
            found = self._instances.locations(self._many(stores), timeout=self._timeout)
            return {_store(one): loaded.location for one, loaded in found.items()}

        return self._asked(ask, unasked={}, deposed={})

    def snapshot_made(self, store: StateStoreId, version: int) -> None:
        versions = dict.fromkeys(self._many([store]), version)
        self._asked(lambda: self._instances.snapshots_made(versions, timeout=self._timeout), None, None)

    def deactivate(self, stores: Collection[StateStoreId]) -> None:
        def ask() -> None:
            executor = self.location.executor
            self._instances.deactivate(self._many(stores), executor=executor, timeout=self._timeout)

        self._asked(ask, None, None)

    def _asked(self, ask: Callable[[], T], unasked: T, deposed: T) -> T:
        if self._clock() >= self._asks_again:
            try:
                answer = ask()
            except MilepostError as error:
                self._deposed = isinstance(error, Fenced)
                self._record = ""  # what could not be reported meanwhile is claimed by the next verification
                self._asks_again = self._clock() + self._pause
                _log.warning(
                    "the service does not tell where state stores are loaded, and is not asked for %g s: %s",
                    self._pause,
                    error,
                )
            else:
                self._deposed = False
                return answer
        return deposed if self._deposed else unasked

    def _many(self, stores: Iterable[StateStoreId]) -> list[StateInstance]:
        return [StateInstance(self._run, store.operator, store.partition, store.name) for store in stores]


def _stores(instances: Iterable[StateInstance]) -> list[StateStoreId]:
    return [_store(one) for one in instances]


def _store(instance: StateInstance) -> StateStoreId:
    return StateStoreId(instance.operator, instance.partition, instance.name)


class InProcessRecord:
    """Which executor has which store loaded. Executors, of which there may be several in a process, share it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.locations: dict[StateStoreId, ExecutorLocation] = {}
        self.snapshots: dict[StateStoreId, int] = {}

    def coordinator(self, location: ExecutorLocation) -> StateStoreCoordinator:
        """Return the coordinator that speaks for the executor at ``location``."""
        return _InProcessCoordinator(self, location)


class _InProcessCoordinator(StateStoreCoordinator):
    def __init__(self, record: InProcessRecord, location: ExecutorLocation) -> None:
        self._record = record
        self._location = location

    def report_active(self, store: StateStoreId, others: Collection[StateStoreId]) -> Collection[StateStoreId]:
        with self._record.lock:
            self._record.locations[store] = self._location
            return [other for other in others if self._record.locations.get(other, self._location) != self._location]

    def verify_active(self, stores: Collection[StateStoreId]) -> Collection[StateStoreId]:
        with self._record.lock:
            return [store for store in stores if self._record.locations.get(store) == self._location]

    def locations(self, stores: Collection[StateStoreId]) -> Mapping[StateStoreId, ExecutorLocation]:
        with self._record.lock:
            known = self._record.locations
            return {store: known[store] for store in stores if store in known}

    def snapshot_made(self, store: StateStoreId, version: int) -> None:
        with self._record.lock:
            self._record.snapshots[store] = max(version, self._record.snapshots.get(store, 0))

    def deactivate(self, stores: Collection[StateStoreId]) -> None:
        with self._record.lock:
            for store in stores:
                if self._record.locations.get(store) == self._location:
                    del self._record.locations[store]

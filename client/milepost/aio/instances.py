"""The asynchronous API of the service's record of loaded state stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from milepost.core.instances import InstanceOperations
from milepost.core.objects import NotPicklable, store_repr
from milepost.core.store_calls import StoreCalls
from milepost.drivers.asynchronous import AsyncDriver
from milepost.types import (
    ExecutorLocation,
    InstanceReport,
    LaggingInstances,
    LoadedInstance,
    StateInstance,
    VerifiedInstances,
)


class AsyncStateInstances(NotPicklable):
    """The record of loaded state stores: the methods of `milepost.StateInstances`, to be awaited."""

    def __init__(self, driver: AsyncDriver, calls: StoreCalls) -> None:
        self._driver = driver
        self._calls = calls
        self._operations = InstanceOperations(calls)

    def __repr__(self) -> str:
        return store_repr(self, self._calls)

    async def report(
        self,
        location: ExecutorLocation,
        loaded: Sequence[StateInstance],
        others: Sequence[StateInstance] = (),
        *,
        timeout: float | None = None,
    ) -> InstanceReport:
        """Report that an executor has these instances loaded, whoever had them before.

        Of the ``others`` that it has loaded, those that another executor reported since are to be unloaded. Raises
        `Fenced`, and `Unavailable` where too many instances are recorded.
        """
        return await self._driver.run(self._operations.report(location, loaded, others, timeout))

    async def verify(
        self,
        location: ExecutorLocation,
        instances: Sequence[StateInstance],
        *,
        record: str = "",
        timeout: float | None = None,
    ) -> VerifiedInstances:
        """Return which of these instances are still the executor's.

        ``record`` is the one that the last answer named. Where the service has begun another one since, as after a
        change of leader, what nobody has is the executor's again. Raises the errors of `report`.
        """
        return await self._driver.run(self._operations.verify(location, instances, record, timeout))

    async def locations(
        self, instances: Sequence[StateInstance], *, timeout: float | None = None
    ) -> dict[StateInstance, LoadedInstance]:
        """Return where these instances are loaded; those that nobody has are left out."""
        found = await self._driver.run(self._operations.locations(instances, timeout))
        return {one.instance: one for one in found}

    async def snapshots_made(self, versions: Mapping[StateInstance, int], *, timeout: float | None = None) -> None:
        """Tell of the version of a snapshot that was made of each of these instances. Raises `Fenced`."""
        await self._driver.run(self._operations.snapshots_made(versions, timeout))

    async def deactivate(
        self,
        instances: Sequence[StateInstance] | None = None,
        *,
        run: str | None = None,
        executor: str | None = None,
        timeout: float | None = None,
    ) -> int:
        """Let nobody have these instances any more, and return how many there were: those of a ``run`` of a query, of
        an ``executor``, those named, or all. Each argument narrows what is meant. Raises `Fenced`.
        """
        return await self._driver.run(self._operations.deactivate(instances, run, executor, timeout))

    def all(self, *, timeout: float | None = None) -> AsyncIterator[LoadedInstance]:
        """Iterate over all loaded instances, by run, operator, partition and name; each page is fetched within
        ``timeout`` seconds.
        """
        return self._driver.stream(self._operations.all(timeout))

    async def lagging(
        self,
        run: str,
        version: int,
        *,
        versions: int,
        age: float = 0.0,
        most: int = 10,
        timeout: float | None = None,
    ) -> LaggingInstances:
        """Return which instances of a run have had no snapshot for long, the ``most`` (1 to 1000) of them at most.

        ``version`` is the newest version of the run. An instance lags if its newest snapshot is behind by more than
        ``versions``, and was told of ``age`` seconds ago at least.
        """
        return await self._driver.run(self._operations.lagging(run, version, versions, age, most, timeout))

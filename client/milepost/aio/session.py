"""A session that keeps itself alive from a task of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType

import anyio
import anyio.abc

from milepost.aio.store import AsyncStateHandleStore
from milepost.core.acting import Acting
from milepost.core.calls import Caller
from milepost.core.lease import Lease, keep, tell_lost
from milepost.core.service import FAREWELL_SECONDS, begin_session, end_session
from milepost.core.store import StoreOperations
from milepost.drivers.asynchronous import AsyncDriver
from milepost.errors import Closed, MilepostError

log = logging.getLogger("milepost")

OnLost = Callable[["AsyncSession", str], None]


class AsyncSession:
    """A lease on the service, renewed each third of its time while the ``async with`` block runs.

    Made by `AsyncClient.session`; what it offers is there from entering the block on and raises `Closed` before.
    """

    def __init__(
        self,
        driver: AsyncDriver,
        caller: Caller,
        holder: str,
        ttl: float,
        session_id: str | None,
        on_lost: OnLost | None,
        timeout: float | None,
    ) -> None:
        self.holder = holder
        self._driver = driver
        self._caller = caller
        self._asked = (ttl, session_id, timeout)
        self._on_lost = on_lost
        self._lease_: Lease | None = None
        self._keeping: anyio.CancelScope | None = None

    @property
    def id(self) -> str:
        """The id under which the service knows the session."""
        return self._lease.session

    @property
    def ttl(self) -> float:
        """The length of the lease in seconds."""
        return self._lease.ttl

    @property
    def lost(self) -> bool:
        """Whether the lease may have run out, by the clock, or the service said that it has. Once true, always."""
        return self._lease.lost

    @property
    def expires_in(self) -> float:
        """Seconds for which the lease is certain, counted from before the request that renewed it; 0 once lost."""
        return self._lease.expires_in

    def raise_if_lost(self) -> None:
        """Raises `SessionExpired` once the session is lost: its locks and its epoch may be another's."""
        self._lease.raise_if_lost()

    def store(self, name: str) -> AsyncStateHandleStore:
        """A store, acted on by this session. Raises `InvalidName`."""
        return AsyncStateHandleStore(self._driver, StoreOperations(self._caller, name, Acting(self._lease)))

    async def close(self) -> None:
        """End the session at the service, with all its locks. If that fails within two seconds, its TTL ends it."""
        keeping, self._keeping = self._keeping, None
        if keeping is None:
            return
        keeping.cancel()  # the keeper alone: its task group is around the caller's block
        with anyio.move_on_after(FAREWELL_SECONDS, shield=True):
            try:
                await self._driver.run(end_session(self._caller, self._lease))
            except MilepostError as error:
                log.warning("session %s is left to its TTL: %s", self.id, error)

    async def __aenter__(self) -> AsyncSession:
        ttl, session_id, timeout = self._asked
        self._lease_ = await self._driver.run(begin_session(self._caller, self.holder, ttl, session_id, timeout))
        self._keeping = anyio.CancelScope()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._keep, self._keeping)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.close()
        if isinstance(error, anyio.get_cancelled_exc_class()):
            return await self._tasks.__aexit__(kind, error, trace)
        # An error of the block's own stays what it is: a task group would wrap it into an exception group.
        await self._tasks.__aexit__(None, None, None)
        return None

    @property
    def _lease(self) -> Lease:
        if self._lease_ is None:
            raise Closed("the session begins with its async with block")
        return self._lease_

    async def _keep(self, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                reason = await self._driver.run(keep(self._caller, self._lease))
            except Closed:
                return
            if self._keeping is scope:
                tell_lost(self, reason, self._on_lost)

"""An asynchronous session, which a background task keeps alive."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType

import anyio
import anyio.abc

from milepost.aio.store import AsyncStateHandleStore
from milepost.core.calls.calls import Caller
from milepost.core.lease import Lease, keep, report_lost
from milepost.core.objects import NotPicklable, session_repr
from milepost.core.service import END_SESSION_SECONDS, begin_session, end_session
from milepost.core.standstill import EVENT_LOOP
from milepost.core.store import StoreOperations
from milepost.core.store_calls import SessionContext
from milepost.drivers.asynchronous import AsyncDriver
from milepost.errors import Closed, MilepostError
from milepost.types import Process

log = logging.getLogger("milepost.sessions")

OnLost = Callable[["AsyncSession", str], None]


class AsyncSession(NotPicklable):
    """A session with the service. While its ``async with`` block runs, a task renews the session each time a third of
    its TTL has passed.

    `AsyncClient.session` makes this object. Its methods raise `Closed` before the block begins.
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
        process: Process | None,
    ) -> None:
        self.holder = holder
        self._driver = driver
        self._caller = caller
        self._asked = (ttl, session_id, timeout, process)
        self._on_lost = on_lost
        self._lease_: Lease | None = None
        self._keeping: anyio.CancelScope | None = None

    def __repr__(self) -> str:
        return session_repr(self, self._lease_, self.holder)

    @property
    def id(self) -> str:
        """The id by which the service knows the session."""
        return self._lease.session

    @property
    def ttl(self) -> float:
        """The TTL of the session in seconds."""
        return self._lease.ttl

    @property
    def lost(self) -> bool:
        """Return whether the session may have expired by this process's clock, or the service has reported its end. A
        lost session stays lost.
        """
        return self._lease.lost

    @property
    def expires_in(self) -> float:
        """Seconds for which the session is certainly alive, counted from before its last renewal was sent; 0 once it is
        lost.
        """
        return self._lease.expires_in

    @property
    def stood_still(self) -> float:
        """Seconds for which the event loop stood still since the last renewal; 0 if that was less than half of the TTL.

        If the session is lost and the value is above 0, the standstill is the cause, and the error of `raise_if_lost`
        says what to do.
        """
        return self._lease.stood_still

    def raise_if_lost(self) -> None:
        """Raise `SessionExpired` if the session is lost. By then its locks may be gone, and another session may have
        been granted the epoch.
        """
        self._lease.raise_if_lost()

    def store(self, name: str) -> AsyncStateHandleStore:
        """Open a store for changes in the name of this session: its locks and its epoch belong to the session. Raises
        `InvalidName`.
        """
        return AsyncStateHandleStore(self._driver, StoreOperations(self._caller, name, SessionContext(self._lease)))

    async def close(self, *, timeout: float | None = None) -> None:
        """End the session at the service, and release all its locks. If the call fails within ``timeout`` (default:
        two) seconds, the session ends when its TTL has passed.
        """
        keeping, self._keeping = self._keeping, None
        if keeping is None:
            return
        keeping.cancel()  # cancel only the renewing task: the task group also runs the caller's block
        with anyio.move_on_after(END_SESSION_SECONDS if timeout is None else timeout, shield=True):
            try:
                await self._driver.run(end_session(self._caller, self._lease, timeout))
            except MilepostError as error:
                log.warning("session %s could not be ended, it ends when its TTL runs out: %s", self.id, error)

    async def detach(self) -> None:
        """Stop renewing the session, without ending it: the session lives on for its TTL, with its locks and its epoch.

        A program that knows the session's id can continue the session (`AsyncClient.session`). A later `close` does
        nothing.
        """
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()

    async def __aenter__(self) -> AsyncSession:
        self._lease_ = await self._driver.run(begin_session(self._caller, self.holder, *self._asked))
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
        # Raise an error of the block itself unchanged: a task group would wrap it into an exception group.
        await self._tasks.__aexit__(None, None, None)
        return None

    @property
    def _lease(self) -> Lease:
        if self._lease_ is None:
            raise Closed("the session has not begun: enter it with async with")
        return self._lease_

    async def _keep(self, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                reason = await self._driver.run(keep(self._caller, self._lease, EVENT_LOOP))
            except Closed:
                return
            if self._keeping is scope:
                report_lost(self, reason, self._on_lost)

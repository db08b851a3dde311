"""The asynchronous client: the way into a Milepost service for coroutines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType

from milepost.aio.session import AsyncSession, OnLost
from milepost.aio.store import AsyncStateHandleStore
from milepost.core import service
from milepost.core.acting import Acting
from milepost.core.calls.calls import Caller, Token
from milepost.core.calls.replicas import Replicas
from milepost.core.direct import DIRECT_ABOVE
from milepost.core.store import StoreOperations
from milepost.drivers.asynchronous import AsyncDriver
from milepost.drivers.connections import Connections, Verify
from milepost.drivers.identity import default_holder
from milepost.types import SessionInfo, Status, StoreSummary


class AsyncClient:
    """A client of one Milepost service, like `milepost.Client`; the tasks of one event loop may share it."""

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        token: Token | None = None,
        timeout: float = 30.0,
        verify: Verify = True,
        direct_above: int | None = DIRECT_ABOVE,
    ) -> None:
        """Make a client; the arguments are those of `milepost.Client`."""
        self._caller = Caller(Replicas(addresses), timeout=timeout, token=token, direct_above=direct_above)
        self._driver = AsyncDriver(Connections(verify))

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses of the service, first that of the replica which led when the last call was answered."""
        return self._caller.replicas.leader_first()

    @property
    def timeout(self) -> float:
        """Seconds that one call may take, unless the call has a timeout of its own."""
        return self._caller.timeout

    def session(
        self,
        holder: str | None = None,
        ttl: float = 15.0,
        session_id: str | None = None,
        on_lost: OnLost | None = None,
        *,
        timeout: float | None = None,
    ) -> AsyncSession:
        """Make a session, which ``async with`` begins; arguments and errors are those of `milepost.Client.session`."""
        holder = default_holder() if holder is None else holder
        return AsyncSession(self._driver, self._caller, holder, ttl, session_id, on_lost, timeout)

    def store(self, name: str) -> AsyncStateHandleStore:
        """Open a store for reading; to change it, open it from a session. Raises `InvalidName`."""
        return AsyncStateHandleStore(self._driver, StoreOperations(self._caller, name, Acting(None)))

    def stores(self) -> AsyncIterator[StoreSummary]:
        """Iterate over all stores by name; they are fetched page by page."""
        return self._driver.stream(service.stores(self._caller))

    async def session_info(self, session_id: str) -> SessionInfo:
        """Return how the service sees any session. Raises `SessionExpired`, `SessionUnknown`."""
        return await self._driver.run(service.session_info(self._caller, session_id))

    async def status(self) -> Status:
        """Return the status of one replica, with the leader that it knows."""
        return await self._driver.run(service.status(self._caller))

    async def close(self) -> None:
        """Close the connections. Later calls raise `Closed`."""
        await self._driver.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

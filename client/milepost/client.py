"""The blocking client: the way into a Milepost service for ordinary Python code."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType

from milepost.core import service
from milepost.core.acting import Acting
from milepost.core.calls.calls import Caller, Token
from milepost.core.calls.replicas import Replicas
from milepost.core.direct import DIRECT_ABOVE
from milepost.core.store import StoreOperations
from milepost.drivers.blocking import BlockingDriver
from milepost.drivers.connections import Connections, Verify
from milepost.drivers.identity import default_holder
from milepost.session import OnLost, Session
from milepost.store import StateHandleStore
from milepost.types import SessionInfo, Status, StoreSummary


class Client:
    """A client of one Milepost service; threads may share it.

    It finds the leader among ``addresses`` and remembers it. Each call is one request under one idempotency key, which
    is sent again as long as that is safe and ``timeout`` (seconds) has not passed.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        token: Token | None = None,
        timeout: float = 30.0,
        verify: Verify = True,
        direct_above: int | None = DIRECT_ABOVE,
    ) -> None:
        """Make a client; it connects with the first call.

        ``token`` is a bearer token, or a function that returns one and is called at each attempt. ``verify`` is that of
        `Connections`.

        A state of more than ``direct_above`` bytes (None: none) is transferred directly between this process and the
        blob store, if the blob store can sign URLs and can be reached from here; any other state goes through the
        service.

        Raises ValueError for an address that is not an http or https URL.
        """
        self._caller = Caller(Replicas(addresses), timeout=timeout, token=token, direct_above=direct_above)
        self._driver = BlockingDriver(Connections(verify))
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()

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
    ) -> Session:
        """Begin a session of ``ttl`` seconds (1 to 3600) that keeps itself alive, or continue a living one with this
        id.

        Others see ``holder`` as the name of the epoch's holder; its default is ``user@host:pid``. ``on_lost(session,
        reason)`` is called once, from the keeper's thread, when the session is lost. ``timeout`` (seconds) replaces the
        client's. Raises `SessionExpired` for an id whose session has ended.
        """
        holder = default_holder() if holder is None else holder
        lease = self._driver.run(service.begin_session(self._caller, holder, ttl, session_id, timeout))
        session = Session(self._driver, self._caller, lease, holder, on_lost)
        self._sessions.add(session)
        return session

    def store(self, name: str) -> StateHandleStore:
        """Open a store for reading; to change it, open it from a session (`Session.store`). Raises `InvalidName`."""
        return StateHandleStore(self._driver, StoreOperations(self._caller, name, Acting(None)))

    def stores(self) -> Iterator[StoreSummary]:
        """Iterate over all stores by name; they are fetched page by page."""
        return self._driver.stream(service.stores(self._caller))

    def session_info(self, session_id: str) -> SessionInfo:
        """Return how the service sees any session. Raises `SessionExpired`, `SessionUnknown`."""
        return self._driver.run(service.session_info(self._caller, session_id))

    def status(self) -> Status:
        """Return the status of one replica, with the leader that it knows."""
        return self._driver.run(service.status(self._caller))

    def close(self) -> None:
        """End the client's sessions and close its connections. Later calls raise `Closed`."""
        for session in list(self._sessions):
            session.close()
        self._driver.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""Who acts: the session in whose name a store is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from milepost.core.lease import Lease
from milepost.errors import InvalidRequest, SessionLost
from milepost.wire import Code, Header


class Acting:
    """The lease under which a store is changed, or none for one that is only read."""

    def __init__(self, lease: Lease | None) -> None:
        self._lease = lease

    @property
    def session(self) -> str | None:
        """The id of the session."""
        return None if self._lease is None else self._lease.session

    def headers(self) -> dict[str, str]:
        """The header that names the session. Raises `SessionExpired` once it is lost: nothing was sent."""
        if self._lease is None:
            raise InvalidRequest(Code.SESSION_REQUIRED, "this store was opened for reading; open it from a session")
        self._lease.raise_if_lost()
        return {Header.SESSION: self._lease.session}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Whatever call the service refuses because the session ended ends the lease here too."""
        try:
            yield
        except SessionLost as error:
            if self._lease is not None:
                self._lease.end(str(error))
            raise

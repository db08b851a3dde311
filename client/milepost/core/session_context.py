"""The session under which a store is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from milepost.core.lease import Lease
from milepost.errors import InvalidRequest, SessionLost
from milepost.wire import Code, Header


class SessionContext:
    """The lease under which a store is changed; it has none for a store that is only read."""

    def __init__(self, lease: Lease | None) -> None:
        self._lease = lease

    @property
    def session(self) -> str | None:
        """The id of the session; None for a store that is only read."""
        return None if self._lease is None else self._lease.session

    def headers(self) -> dict[str, str]:
        """Return the header that names the session. Raises `SessionExpired` once it is lost; nothing was sent then."""
        if self._lease is None:
            raise InvalidRequest(Code.SESSION_REQUIRED, "this store was opened for reading; open it from a session")
        self._lease.raise_if_lost()
        return {Header.SESSION: self._lease.session}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """End the lease here too, if the service refuses the enclosed call because the session ended."""
        try:
            yield
        except SessionLost as error:
            if self._lease is not None:
                self._lease.end(str(error))
            raise

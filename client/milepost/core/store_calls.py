"""What all requests about one store have in common: their path, their session, and their epoch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

from milepost.core.body import Body
from milepost.core.calls.answers import Reader
from milepost.core.calls.calls import Caller, Key, Reply
from milepost.core.calls.request import JSON_MEDIA_TYPE, Request, call_of, checked_name
from milepost.core.effects import Operation
from milepost.core.lease import Lease
from milepost.errors import InvalidRequest, SessionLost
from milepost.operations.operation import RestOperation
from milepost.wire import Code, Header

T = TypeVar("T")

JSON: Final = {"Content-Type": JSON_MEDIA_TYPE}


class SessionContext:
    """The session in whose name a store is changed, given by its lease. Without a lease the store is only read."""

    def __init__(self, lease: Lease | None) -> None:
        self._lease = lease

    @property
    def session(self) -> str | None:
        """The id of the session; None if the store is only read."""
        return None if self._lease is None else self._lease.session

    def headers(self) -> dict[str, str]:
        """Return the header that names the session. Raises `SessionExpired` once the session is lost, and
        `InvalidRequest` if the store was opened only for reading.
        """
        if self._lease is None:
            raise InvalidRequest(Code.SESSION_REQUIRED, "this store was opened for reading; open it from a session")
        self._lease.raise_if_lost()
        return {Header.SESSION: self._lease.session}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """End the session's lease in this process if a call in the block is refused because the session has ended. The
        error is raised unchanged.
        """
        try:
            yield
        except SessionLost as error:
            if self._lease is not None:
                self._lease.end(str(error))
            raise


class StoreCalls:
    """Sends the requests of one session about one store. ``epoch`` is the epoch under which they write; it changes when
    the session is granted another.
    """

    def __init__(self, caller: Caller, store: str, context: SessionContext, epoch: int | None = None) -> None:
        self.caller = caller
        self.store = checked_name(store, "store")
        self.context = context
        self.epoch = epoch

    def send(
        self,
        method: str,
        target: str,
        reader: Reader[T],
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        *,
        timeout: float | None = None,
        begin_within: float | None = None,
        wait: float = 0.0,
        key: Key | None = None,
        final: Collection[Code] = (),
    ) -> Operation[Reply[T]]:
        """Send a request in the session's name. If the service answers that the session has ended, end the session's
        lease in this process, too.

        ``target`` is the path with its query. ``wait`` is the number of seconds for which the service may hold its
        answer back; the other arguments and the errors are those of `Caller.call`.
        """
        request = Request(method, target, reader, {**(headers or {}), **self.context.headers()}, body, wait)
        with self.context.watched():
            return (
                yield from self.caller.call(request, timeout=timeout, begin_within=begin_within, key=key, final=final)
            )

    def at(self, operation: RestOperation, *parameters: str, **query: object) -> tuple[str, str]:
        """Return the method and the path of a request about the store. ``parameters`` are the values of the path
        parameters after the store's name; the members of ``query`` that are not None become the query.
        """
        return call_of(operation, self.store, *parameters, **query)

    def epoch_header(self) -> dict[str, str]:
        """Return the header with the epoch, by which the service fences a write; an empty dict if there is no epoch."""
        return {} if self.epoch is None else {Header.EPOCH: str(self.epoch)}

"""What clients, sessions and stores have in common: they refuse to be pickled, and their ``repr`` is one line, which
contains no secret and needs no request.
"""

from __future__ import annotations

from typing import Any

from milepost.core.calls.calls import Caller
from milepost.core.lease import Lease
from milepost.core.store_calls import StoreCalls


class NotPicklable:
    """The base of objects that refuse to be pickled, because they belong to one process. Spark pickles every object to
    which a function for its executors refers, so the error says what to do instead.
    """

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__} cannot be sent to another process: make a client there, in the code that needs it"
        )


def client_repr(client: object, caller: Caller, closed: bool) -> str:
    """Describe a client by its configured addresses, which contain no credentials."""
    addresses = ", ".join(caller.replicas.addresses)
    return _line(client, f"of {addresses}", f"timeout {caller.timeout:g} s", "closed" if closed else "")


def session_repr(session: object, lease: Lease | None, holder: str) -> str:
    """Describe a session by its id and by the time for which it is certainly alive."""
    if lease is None:
        return _line(session, f"held by {holder!r}", "not begun")
    left = f"lost: {lease.reason}" if lease.lost else f"{lease.expires_in:.1f} of {lease.ttl:g} s left"
    return _line(session, lease.session, f"held by {holder!r}", left)


def store_repr(store: object, calls: StoreCalls) -> str:
    """Describe an object for a store or its files by the store's name, and by the session and the epoch under which the
    object writes.
    """
    session, epoch = calls.context.session, calls.epoch
    who = "for reading" if session is None else f"in session {session}"
    return _line(store, repr(calls.store), who, "" if epoch is None else f"under epoch {epoch}")


def _line(thing: object, *parts: str) -> str:
    return f"<{type(thing).__name__} {', '.join(filter(None, parts))}>"

"""The short way of the calls of handles: the usual ones are answered in front of the parser.

A call goes the short way if it is a usual one and complete, if this replica leads, and if nothing but a commit needs to
be waited for. Any other call is answered as every request is, and so is one that must be refused before its commit. So
the short way decides nothing that the routes do not decide as well, and both give the same answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from milepost.errors import Problem
from milepost.wire import STATE_MEDIA_TYPE
from milepost_server.http.access.tokens import Principal
from milepost_server.http.calls.answers import Asked, CallAnswers
from milepost_server.http.calls.usual import Call, Unusual, UsualCalls
from milepost_server.http.connection.short_exchange import Answered, Common, Finished, Missing
from milepost_server.http.replies import cancelled_problem, internal_problem
from milepost_server.http.requests import Context
from milepost_server.memory.state import State
from milepost_server.model.requests.handles import LockHandle, ReleaseHandle
from milepost_server.operations.handles import existing, record_in
from milepost_server.replica.submitter import Reply

log = logging.getLogger("milepost.http")

_JSON: Final = frozenset({"", "*/*", "application/json"})
_BYTES: Final = frozenset({"", "*/*", STATE_MEDIA_TYPE})
"""The values of the header Accept with which a record, and a state, may be answered."""

Read = Callable[[Asked, State], bytes]
Change = tuple[int, Callable[[], Awaitable[Reply]]]
"""The status of the answer if the change is made, and what makes it."""


class CallsShortWay:
    """Answers usual calls of handles. The answers are counted and logged like any other."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._journal = context.journal
        self._operations = context.operations
        self._calls = UsualCalls(context.hosts)
        self._answers = CallAnswers(context)
        self._reads: dict[bytes, Read] = {
            b"GET": self._record,
            b"HEAD": self._exists,
            b"GET/state": self._state,
            b"GET/state?redirect=true": self._state,  # there is no signed URL for bytes that are in the record
        }
        self._changes: dict[bytes, Callable[[Call, Principal | None], Change]] = {
            b"POST": self._add,
            b"PUT": self._replace,
            b"POST/lock": self._lock,
            b"DELETE/lock": self._release,
        }

    def answer(self, data: bytes, common: Common) -> Answered:
        """Return the answer to a request. ``data`` is all that came from the client, after complete requests. Raises
        `Unusual` if it is no usual call, and a problem if it must be refused.
        """
        began, call = self._context.clock(), self._calls.read(data)
        read, change = self._reads.get(call.kind), self._changes.get(call.kind)
        if read is None and change is None:
            return None
        if len(call.body) < call.length:
            return None if change is None else Missing.BODY
        owner = self._owner(call, writes=change is not None)
        state = self._journal.state_if_leading()
        if state is None:
            return None
        asked = Asked(call, "" if owner is None else owner.name, began, common)
        if read is not None:
            return None if call.body else read(asked, state)
        return None if change is None else self._finished(asked, *change(call, owner))

    def _owner(self, call: Call, *, writes: bool) -> Principal | None:
        """Return the owner of the call's token, None without tokens. Raises `Unusual` if the owner is not known without
        waiting, or may not make this call.
        """
        authentication, known = self._context.authentication, call.known
        if not authentication.required:
            if not known.host_is_known:
                raise Unusual
            return None
        owner = None if known.digest is None else authentication.remembered(known.digest)
        if not isinstance(owner, Principal):
            raise Unusual
        rights = owner.rights
        if not (rights.may_write(call.store) if writes else rights.may_read(call.store)):
            raise Unusual
        return owner

    # -- reads ---------------------------------------------------------------------------------------------------------

    def _record(self, asked: Asked, state: State) -> bytes:
        call = asked.call
        if call.known.accept not in _JSON:
            raise Unusual
        return self._answers.record(asked, record_in(state, call.store, call.name))

    def _exists(self, asked: Asked, state: State) -> bytes:
        return self._answers.existence(asked, existing(state, asked.call.store, asked.call.name))

    def _state(self, asked: Asked, state: State) -> bytes:
        call = asked.call
        handle, version = existing(state, call.store, call.name), call.version()
        if handle.data is None or version not in (None, handle.version) or call.known.accept not in _BYTES:
            raise Unusual
        return self._answers.state(asked, handle, handle.data)

    # -- changes -------------------------------------------------------------------------------------------------------

    def _lock(self, call: Call, owner: Principal | None) -> Change:
        if call.body:
            raise Unusual
        request = LockHandle(call.caller(owner).attempt, call.store, call.name)
        return 200, partial(self._operations.perform, request)

    def _release(self, call: Call, owner: Principal | None) -> Change:
        if call.body:
            raise Unusual
        request = ReleaseHandle(call.caller(owner).attempt, call.store, call.name)
        return 204, partial(self._operations.perform, request)

    def _add(self, call: Call, owner: Principal | None) -> Change:
        caller, state = call.caller(owner), call.state()
        return 201, partial(self._operations.states.add, caller, call.store, call.name, state, {})

    def _replace(self, call: Call, owner: Principal | None) -> Change:
        caller, state, version = call.caller(owner), call.state(), call.version()
        if version is None:
            raise Unusual
        return 200, partial(self._operations.states.replace, caller, call.store, call.name, version, state, None)

    async def _finished(self, asked: Asked, status: int, change: Callable[[], Awaitable[Reply]]) -> Finished:
        """Make a change, and return its answer, also if the change is refused or fails."""
        call = asked.call
        try:
            reply = await change()
        except Problem as error:
            return self._answers.refused(asked, error)
        except asyncio.CancelledError:
            # the server is stopping and has cancelled this request
            problem = cancelled_problem(call.method, call.path, call.request_id)
            return self._answers.refused(asked, problem, about_store=False)
        except Exception:
            log.exception("%s %s failed unexpectedly and is answered as 500", call.method, call.path)
            return self._answers.refused(asked, internal_problem())
        return Finished(self._answers.answered(asked, status, reply.answer, reply.revision, reply.term), True)

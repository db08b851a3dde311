"""The contract as plain dictionaries: what a store would be if nothing ever failed and one request came after another.

It knows no records, no layers and no laziness: a lock is a member of a set, a session that ends leaves every set at
once, a cleared handle is gone. What the rules answer and leave behind has to look like this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from milepost.wire import Code
from milepost_server.model.requests.base import HandleRequest, Request, StoreRequest
from milepost_server.model.requests.handles import (
    Add,
    Campaign,
    Clear,
    CreateUpload,
    LockAll,
    LockHandle,
    ReleaseAll,
    ReleaseHandle,
    Remove,
    Replace,
    Resign,
)
from milepost_server.model.requests.sessions import EndSession, OpenSession

Body = dict[str, Any]
_TIMES = {"created", "updated", "since"}


class Judged(NamedTuple):
    """What has to be answered: a refusal's ``code`` with ``extras``, or a ``body``; and whether anything changed."""

    code: Code | None
    body: Body
    changed: bool = False


@dataclass(slots=True)
class PlainSession:
    """A session; once ``ended`` it stays so."""

    ttl: float
    holder: str
    ended: bool = False


@dataclass(slots=True)
class PlainHandle:
    """A handle; ``removing`` once its removal has begun."""

    version: str
    size: int
    sha256: str
    labels: Mapping[str, str]
    epoch: int | None
    locks: set[str]
    removing: bool = False


@dataclass(slots=True)
class PlainStore:
    """A store: its handles by name, what was said of its pending uploads, its epoch, and who holds that."""

    handles: dict[str, PlainHandle] = field(default_factory=dict)
    uploads: dict[str, tuple[int, str]] = field(default_factory=dict)
    epoch: int = 0
    holder: str | None = None

    def present(self, name: str) -> PlainHandle | None:
        """The handle, unless it is being removed."""
        handle = self.handles.get(name)
        return None if handle is None or handle.removing else handle


class PlainModel:
    """Sessions and stores. ``most_uploads``: how many of a store may be pending."""

    def __init__(self, most_uploads: int) -> None:
        self._most_uploads = most_uploads
        self.sessions: dict[str, PlainSession] = {}
        self.stores: dict[str, PlainStore] = {}

    def store(self, name: str) -> PlainStore:
        """Give a store, which need not have existed."""
        return self.stores.setdefault(name, PlainStore())

    def handle_body(self, store: str, name: str) -> Body | None:
        """The record of a handle as answers show it, but for its times; None for one that is not there."""
        handle = self.store(store).handles.get(name)
        if handle is None:
            return None
        return {
            "name": name,
            "version": handle.version,
            "size": handle.size,
            "sha256": handle.sha256,
            "labels": dict(handle.labels),
            "locks": sorted(handle.locks),
            "epoch": handle.epoch,
            "removing": handle.removing,
        }

    def epoch_body(self, store: str) -> Body:
        """The epoch as answers show it, but for its time."""
        plain = self.store(store)
        session = self.sessions[plain.holder] if plain.holder else None
        return {"epoch": plain.epoch, "session": plain.holder, "holder": session.holder if session else None}

    def locked_by(self, session: str) -> Iterator[tuple[str, str]]:
        """Give store and name of each handle that the session holds."""
        for store, plain in self.stores.items():
            for name, handle in plain.handles.items():
                if session in handle.locks:
                    yield store, name

    def end(self, session: str) -> None:
        """A session is over: its locks go, its epochs become free."""
        self.sessions[session].ended = True
        for store in self.stores.values():
            for handle in store.handles.values():
                handle.locks.discard(session)
            if store.holder == session:
                store.holder = None

    def finish(self, store: str, name: str) -> None:
        """The bytes of a handle that was being removed are gone, and so is the handle."""
        self.store(store).handles.pop(name, None)

    def apply(self, request: Request, version: str) -> Judged:
        """Judge a request, and do it if it is granted; ``version`` is the one that a state set by it gets."""
        session = self.sessions.get(request.session)
        if isinstance(request, OpenSession):
            return self._open(request, session)
        if session is None:
            return Judged(Code.SESSION_UNKNOWN, {})
        if session.ended:
            return Judged(Code.SESSION_EXPIRED, {})
        if isinstance(request, EndSession):
            self.end(request.session)
            return Judged(None, {}, changed=True)
        assert isinstance(request, StoreRequest)
        store = self.store(request.store_name)
        if isinstance(request, Add | Replace | Remove | Clear) and (request.epoch or 0) != store.epoch:
            return Judged(Code.FENCED, {"current": store.epoch})
        if isinstance(request, HandleRequest):
            return self._of_handle(store, request, version)
        return self._store_indexes(store, request)

    def _open(self, request: OpenSession, session: PlainSession | None) -> Judged:
        if session is not None and session.ended:
            return Judged(Code.SESSION_EXPIRED, {})
        opened = PlainSession(request.ttl, request.holder)
        self.sessions[request.session] = opened
        body = {"session": request.session, "ttl": request.ttl, "holder": request.holder}
        return Judged(None, body, changed=session != opened)

    def _of_handle(self, store: PlainStore, request: HandleRequest, version: str) -> Judged:
        name, session = request.name, request.session
        handle = store.present(name)
        match request:
            case Add():
                if handle is not None:
                    return Judged(Code.ALREADY_EXISTS, {"current": handle.version})
                if wrong := _taken(store, request):
                    return wrong
                blob = request.blob
                store.handles[name] = PlainHandle(
                    version, blob.size, blob.sha256, request.labels, request.epoch, {session}
                )
                return self._handle_answer(request)
            case Remove():
                return self._remove(store, handle, request)
            case ReleaseHandle():
                if handle is None or session not in handle.locks:
                    return Judged(None, {})
                handle.locks.remove(session)
                return Judged(None, {}, changed=True)
            case _:
                pass
        if handle is None:
            return Judged(Code.NOT_EXIST, {})
        if isinstance(request, LockHandle):
            held = session in handle.locks
            handle.locks.add(session)
            return self._handle_answer(request, changed=not held)
        assert isinstance(request, Replace)
        if handle.version != request.version:
            return Judged(Code.VERSION_MISMATCH, {"current": handle.version})
        if session not in handle.locks:
            return Judged(Code.NOT_LOCKED, {})
        if wrong := _taken(store, request):
            return wrong
        handle.version, handle.epoch = version, request.epoch
        handle.size, handle.sha256 = request.blob.size, request.blob.sha256
        handle.labels = handle.labels if request.labels is None else request.labels
        return self._handle_answer(request)

    def _remove(self, _store: PlainStore, handle: PlainHandle | None, request: Remove) -> Judged:
        if handle is None:
            return Judged(None, {"removed": True})
        if request.version is not None and handle.version != request.version:
            return Judged(Code.VERSION_MISMATCH, {"current": handle.version})
        held = request.session in handle.locks
        handle.locks.discard(request.session)
        if handle.locks:
            return Judged(None, {"removed": False, "locks": sorted(handle.locks)}, changed=held)
        handle.removing = True
        return Judged(None, {"removed": True}, changed=True)

    def _store_indexes(self, store: PlainStore, request: StoreRequest) -> Judged:
        present = [handle for handle in store.handles.values() if not handle.removing]
        match request:
            case LockAll():
                for handle in present:
                    handle.locks.add(request.session)
                return Judged(None, self.inventory(request.store_name), changed=True)
            case ReleaseAll():
                for handle in present:
                    handle.locks.discard(request.session)
                return Judged(None, {}, changed=True)
            case Clear():
                count = len(store.handles)
                store.handles.clear()
                return Judged(None, {"cleared": count}, changed=count > 0)
            case Campaign():
                return self._campaign(store, request)
            case CreateUpload():
                if len(store.uploads) >= self._most_uploads:
                    return Judged(Code.TOO_MANY_REQUESTS, {})
                store.uploads[request.upload] = (request.blob.size, request.blob.sha256)
                return Judged(None, {"upload": request.upload}, changed=True)
            case _:
                assert isinstance(request, Resign)
        if store.holder is None:
            return Judged(None, {})
        if store.holder != request.session:
            return Judged(Code.FENCED, {"current": store.epoch, "holder": self.sessions[store.holder].holder})
        store.holder = None
        return Judged(None, {}, changed=True)

    def inventory(self, store: str) -> Body:
        """Every handle that is there, by name."""
        names = sorted(name for name, handle in self.store(store).handles.items() if not handle.removing)
        return {"handles": [self.handle_body(store, name) for name in names], "corrupt": []}

    def _campaign(self, store: PlainStore, request: Campaign) -> Judged:
        if store.holder not in (None, request.session):
            assert store.holder is not None
            return Judged(Code.HELD, {"holder": self.sessions[store.holder].holder, "epoch": store.epoch})
        granted = store.holder is None
        store.epoch += granted
        store.holder = request.session
        return Judged(None, self.epoch_body(request.store_name), changed=granted)

    def _handle_answer(self, request: HandleRequest, *, changed: bool = True) -> Judged:
        return Judged(None, self.handle_body(request.store_name, request.name) or {}, changed)


def _taken(store: PlainStore, request: Add | Replace) -> Judged | None:
    """Use up the upload of a request, if it has one; tell why where that cannot be."""
    if request.upload is None:
        return None
    announced = store.uploads.get(request.upload.id)
    if announced is None:
        return Judged(Code.UPLOAD_UNKNOWN, {})
    if announced != (request.blob.size, request.blob.sha256):
        return Judged(Code.DIGEST_MISMATCH, {})
    del store.uploads[request.upload.id]
    return None


def alike(expected: Body | None, actual: Body | None) -> bool:
    """Return whether a record is as expected, its times left aside."""
    if expected is None or actual is None:
        return expected is actual
    return {key: value for key, value in actual.items() if key not in _TIMES} == expected

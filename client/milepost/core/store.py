"""The operations of one store: Flink's ten, reading a state's bytes, the epoch, and the files of a job."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from typing import TypeVar

from milepost.core.acting import Acting
from milepost.core.body import AsyncState, Body, body_of
from milepost.core.calls import answers
from milepost.core.calls.answers import Reader
from milepost.core.calls.calls import Caller, Key, Reply
from milepost.core.calls.request import JSON_MEDIA_TYPE, Request, checked_name, if_match, json_body, label_headers, path
from milepost.core.download import download
from milepost.core.effects import Emit, Operation, Work
from milepost.core.upload import REFUSED_FOR_NOW, Upload, put, upload_of
from milepost.errors import NotExist, NotSupported, ServerFault, UploadUnknown
from milepost.types import Clone, Epoch, FileCredential, Handle, KeptCuts, LockedHandles, Removal, Verification
from milepost.wire import STATE_MEDIA_TYPE, UPLOAD_MEDIA_TYPE, Code, Header

T = TypeVar("T")

log = logging.getLogger("milepost")

EXAMINED_BYTES_PER_SECOND = 32 * 1024 * 1024  # how fast the service surely checks the bytes of an upload
LEAST_TO_ASK = 1.0  # seconds that are spent on finding the leader, however short the wait is
_JSON = {"Content-Type": JSON_MEDIA_TYPE}


class StoreOperations:
    """The operations of one session in one store. Add, replace, remove and clear carry ``epoch``."""

    def __init__(self, caller: Caller, store: str, acting: Acting, epoch: int | None = None) -> None:
        self.caller = caller
        self.store = checked_name(store, "store")
        self.acting = acting
        self.epoch = epoch

    def under(self, epoch: int) -> StoreOperations:
        """Return the same operations under a given epoch."""
        return StoreOperations(self.caller, self.store, self.acting, epoch)

    def add_and_lock(
        self, name: str, state: AsyncState, labels: Mapping[str, str] | None, timeout: float | None
    ) -> Operation[Handle]:
        """Do Flink's addAndLock: add a handle, locked by the session. Raises `AlreadyExists`."""
        return (yield from self._write("POST", name, state, labels, {}, timeout))

    def replace(
        self, name: str, version: str, state: AsyncState, labels: Mapping[str, str] | None, timeout: float | None
    ) -> Operation[Handle]:
        """Do Flink's replace: set a new state if ``version`` is current. Raises `NotExist`, `VersionMismatch`,
        `NotLocked`.
        """
        return (yield from self._write("PUT", name, state, labels, if_match(version), timeout))

    def exists(self, name: str) -> Operation[str | None]:
        """Do Flink's exists: return the handle's version, or None. Raises `Corrupt`."""
        try:
            reply = yield from self.caller.call(Request("HEAD", self._handle(name), answers.version))
        except NotExist:
            return None
        except ServerFault:
            return (yield from self.get(name)).version  # an answer to HEAD has no body that says what is wrong
        return reply.value

    def get(self, name: str) -> Operation[Handle]:
        """Return the record of a handle, without locking it. Raises `NotExist`, `Corrupt`."""
        request = Request("GET", self._handle(name), answers.document(answers.handle_named(name)))
        return (yield from self.caller.call(request)).value

    def download(self, name: str, version: str | None) -> Operation[None]:
        """Emit the state in chunks; the first is empty. Raises the errors that the function `download` names."""
        return download(self.caller, self._handle(name), version)

    def get_and_lock(self, name: str) -> Operation[Handle]:
        """Do Flink's getAndLock: lock a handle and return its record. Raises `NotExist`, `Corrupt` (and then holds no
        lock).
        """
        reader = answers.document(answers.handle_named(name))
        return (yield from self._act("POST", self._handle(name, "lock"), reader)).value

    def get_all_and_lock(self) -> Operation[LockedHandles]:
        """Do Flink's getAllAndLock: lock all handles and return their records, and the damaged ones."""
        return (yield from self._act("POST", self._path("locks"), answers.document(answers.locked))).value

    def get_all_handles(self, page: int) -> Operation[None]:
        """Do Flink's getAllHandles: fetch page after page, and emit each `Handle`."""
        token: str | None = None
        while True:
            target = self._path("handles", limit=page, token=token)
            reply = yield from self.caller.call(Request("GET", target, answers.document(answers.page(token))))
            found, corrupt, token = reply.value
            for damaged in corrupt:
                log.warning(
                    "handle %s of store %s is damaged and left out of the listing: %s",
                    damaged.name,
                    self.store,
                    damaged.reason,
                )
            for handle in found:
                yield Emit(handle)
            if token is None:
                return

    def release_and_try_remove(self, name: str, version: str | None, timeout: float | None) -> Operation[Removal]:
        """Do Flink's releaseAndTryRemove: release the session's lock, and remove the handle unless other sessions hold
        it.

        Raises `VersionMismatch` if ``version`` is given and stale, `DiscardFailed`.
        """
        headers = {} if version is None else if_match(version)
        reader = answers.document(answers.removal)
        headers = {**headers, **self._token()}
        return (yield from self._act("DELETE", self._handle(name), reader, headers, timeout=timeout)).value

    def clear_entries(self) -> Operation[int]:
        """Do Flink's clearEntries: remove all handles, and return how many there were."""
        reader = answers.document(answers.cleared)
        return (yield from self._act("DELETE", self._path("handles"), reader, self._token())).value

    def release(self, name: str) -> Operation[None]:
        """Do Flink's release: release the session's lock on a handle."""
        yield from self._act("DELETE", self._handle(name, "lock"), answers.nothing)

    def release_all(self) -> Operation[None]:
        """Do Flink's releaseAll: release all locks of the session in this store."""
        yield from self._act("DELETE", self._path("locks"), answers.nothing)

    def current_epoch(self) -> Operation[Epoch]:
        """Ask for the store's current epoch, whoever holds it."""
        request = Request("GET", self._path("epoch"), answers.document(answers.epoch))
        return (yield from self.caller.call(request)).value

    def poll_epoch(self, wait: float, within: float = math.inf) -> Operation[Epoch]:
        """Campaign once: ask for the epoch, and let the service hold its answer back for up to ``wait`` seconds until
        the epoch is free. No attempt begins after ``within`` seconds. Raises `EpochHeld`.
        """
        within = max(within, LEAST_TO_ASK)
        reply = yield from self._act(
            "POST",
            self._path("epoch"),
            answers.document(answers.epoch_of(self.acting.session)),
            _JSON,
            json_body({"wait": wait}),
            timeout=min(self.caller.timeout + wait, within + self.caller.attempt_timeout),
            begin_within=within,
            wait=wait,
        )
        return reply.value

    def file_credential(self) -> Operation[FileCredential | None]:
        """Ask for the credential of the store's files under the epoch that the session holds; None if none is needed.

        Raises `Fenced` if the session does not hold the epoch.
        """
        reader = answers.document(answers.file_credential)
        try:
            return (yield from self._act("POST", self._path("epoch", "credentials"), reader)).value
        except NotSupported:
            return None

    def resign(self) -> Operation[None]:
        """Give up the epoch. Raises `Fenced` if another session holds it."""
        yield from self._act("DELETE", self._path("epoch"), answers.nothing)
        self.epoch = None

    def kept_cuts(self) -> Operation[KeptCuts]:
        """Return the cuts and pins of the files of the job. Raises `Corrupt`."""
        request = Request("GET", self._path("tree"), answers.document(answers.kept_cuts))
        return (yield from self.caller.call(request)).value

    def verify(self, digests: bool, timeout: float | None) -> Operation[Verification]:
        """Look whether the bytes of all files of the job are there. Raises `Corrupt`."""
        timeout = self.caller.timeout if timeout is None else timeout
        target, reader = self._path("tree", "verification"), answers.document(answers.verification)
        request = Request("POST", target, reader, _JSON, json_body({"digests": digests}), timeout)
        return (yield from self.caller.call(request, timeout=timeout)).value

    def pin(self, name: str, revision: int) -> Operation[int]:
        """Keep a cut under a name. Raises `NotExist`, `AlreadyExists`."""
        target, reader = self._path("tree", "pins", checked_name(name)), answers.document(answers.revision)
        return (yield from self._act("PUT", target, reader, _JSON, json_body({"revision": revision}))).value

    def unpin(self, name: str) -> Operation[None]:
        """Keep a cut no longer for the sake of its name. Raises `NotExist`."""
        yield from self._act("DELETE", self._path("tree", "pins", checked_name(name)), answers.nothing)

    def roll_back(self, revision: int, keep: Collection[str]) -> Operation[int]:
        """Let the files of the job be those of a cut again, but for those in ``keep``. Raises `NotExist`, `Fenced`."""
        target, reader = self._path("tree", "rollback"), answers.document(answers.revision)
        headers = {**_JSON, **self._token()}
        body = json_body({"revision": revision, **({"keep": list(keep)} if keep else {})})
        return (yield from self._act("POST", target, reader, headers, body)).value

    def clone(self, source: str, snapshot: str, timeout: float | None) -> Operation[Clone]:
        """Begin the files of the job with copies of a snapshot of another one. Raises `NotExist`, `NotEmpty`."""
        target, reader = self._path("tree", "clone"), answers.document(answers.clone, 201)
        timeout = self.caller.timeout if timeout is None else timeout
        body = json_body({"source": checked_name(source), "snapshot": snapshot})
        headers = {**_JSON, **self._token()}
        return (yield from self._act("POST", target, reader, headers, body, timeout=timeout, wait=timeout)).value

    def _write(
        self,
        method: str,
        name: str,
        state: AsyncState,
        labels: Mapping[str, str] | None,
        headers: dict[str, str],
        timeout: float | None,
    ) -> Operation[Handle]:
        target = self._handle(name)
        reader = answers.document(answers.handle_named(name), 201 if method == "POST" else 200)
        headers = {**headers, **label_headers(labels), **self._token()}
        self.acting.headers()  # raises if the session is lost, before a large state is read
        body: Body = yield Work(lambda: body_of(state))
        key = self.caller.new_key()
        deadline = key.since + (self.caller.timeout if timeout is None else timeout)
        reply = None
        if self.caller.direct.suits_body(body):
            reply = yield from self._write_directly(method, target, reader, headers, body, key, deadline)
        if reply is None:
            headers["Content-Type"] = STATE_MEDIA_TYPE
            left = deadline - self.caller.clock()
            reply = yield from self._act(method, target, reader, headers, body, timeout=left, key=key)
        return reply.value

    def _write_directly(
        self,
        method: str,
        target: str,
        reader: Reader[Handle],
        headers: Mapping[str, str],
        body: Body,
        key: Key,
        deadline: float,
    ) -> Operation[Reply[Handle] | None]:
        """Put the bytes into the blob store, and then add or replace the handle by naming them to the service.

        Returns None if the bytes have to go through the service instead.
        """

        def announce(request: Body, timeout: float) -> Operation[Reply[Upload]]:
            announced = answers.document(upload_of, 201)
            target = self._path("uploads")
            return self._act("POST", target, announced, _JSON, request, timeout=timeout, final=REFUSED_FOR_NOW)

        for _ in range(2):  # twice: an upload may expire just before it is named
            upload = yield from put(self.caller, announce, body, deadline)
            if upload is None:
                break
            try:
                return (
                    yield from self._act(
                        method,
                        target,
                        reader,
                        {**headers, "Content-Type": UPLOAD_MEDIA_TYPE},
                        json_body({"upload": upload, "size": body.size, "sha256": body.sha256}),
                        timeout=deadline - self.caller.clock(),
                        wait=(body.size or 0) / EXAMINED_BYTES_PER_SECOND,
                        key=key,
                    )
                )
            except UploadUnknown:  # so nothing was applied, neither by this attempt nor by an earlier one
                continue
        return None

    def _act(
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
        request = Request(method, target, reader, {**(headers or {}), **self.acting.headers()}, body, wait)
        with self.acting.watched():
            return (
                yield from self.caller.call(request, timeout=timeout, begin_within=begin_within, key=key, final=final)
            )

    def _path(self, *segments: str, **query: object) -> str:
        return path("stores", self.store, *segments, **query)

    def _handle(self, name: str, *segments: str) -> str:
        return self._path("handles", checked_name(name), *segments)

    def _token(self) -> dict[str, str]:
        return {} if self.epoch is None else {Header.EPOCH: str(self.epoch)}

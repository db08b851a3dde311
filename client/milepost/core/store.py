"""The operations of one store: the ten of Flink's StateHandleStore, reading the bytes of a state, and the epoch."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime

from milepost.core.body import AsyncState, Body, body_of
from milepost.core.calls import answers, file_answers
from milepost.core.calls.answers import Reader
from milepost.core.calls.calls import Key, Reply
from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.core.calls.request import Request, checked_name, if_match, json_body
from milepost.core.calls.trace import request_id_of
from milepost.core.download import download
from milepost.core.effects import Emit, Operation, Sleep, Work
from milepost.core.labels import check_labels, label_headers
from milepost.core.progress import Progress, Transfer
from milepost.core.saved_history import restorable, time_text
from milepost.core.store_calls import JSON, StoreCalls
from milepost.core.upload import REFUSED_FOR_NOW, Upload, put, upload_of
from milepost.errors import EpochHeld, InvalidRequest, MilepostError, NotExist, NotSupported, ServerFault, UploadUnknown
from milepost.job_types import DroppedJob, HistoryEntry, JobAct
from milepost.operations.handles import (
    ADD_AND_LOCK,
    ANNOUNCE_UPLOAD,
    CAMPAIGN,
    CLEAR_ENTRIES,
    DROP_JOB,
    EXISTS,
    GET_ALL_AND_LOCK,
    GET_ALL_HANDLES,
    GET_AND_LOCK,
    GET_CREDENTIALS,
    GET_EPOCH,
    GET_HANDLE,
    READ_STATE,
    RELEASE,
    RELEASE_ALL,
    RELEASE_AND_TRY_REMOVE,
    REPLACE,
    REPORT_ROWS,
    RESIGN,
    RESTORE_JOB_HISTORY,
)
from milepost.operations.operation import RestOperation
from milepost.types import Epoch, FileCredential, Handle, LockedHandles, Removal
from milepost.wire import STATE_MEDIA_TYPE, UPLOAD_MEDIA_TYPE, Code, Header

log = logging.getLogger("milepost.stores")

POLL_SECONDS = 20.0  # less than the service allows, so that the client soon notices if the leader is gone
BETWEEN_SECONDS = 0.2
EXAMINED_BYTES_PER_SECOND = 32 * 1024 * 1024  # the service checks the bytes of an upload at least this fast
LEAST_TO_ASK = 1.0  # the least seconds to spend on finding the leader, however short the wait is


class StoreOperations(StoreCalls):
    """The operations of one session in one store. Those that add, replace, remove and clear handles carry ``epoch``, by
    which the service fences them.
    """

    _told_of_stop = False  # whether the log says that the job is stopped

    def under(self, epoch: int) -> StoreOperations:
        """Return the operations of the same session and store, with ``epoch`` in place of the present one."""
        return StoreOperations(self.caller, self.store, self.context, epoch)

    def add_and_lock(
        self,
        name: str,
        state: AsyncState,
        labels: Mapping[str, str] | None,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Operation[Handle]:
        """Do Flink's addAndLock: add a handle, locked by the session. Raises `AlreadyExists`, `LabelsLost`."""
        return (yield from self._write(ADD_AND_LOCK, name, state, labels, {}, timeout, progress))

    def replace(
        self,
        name: str,
        version: str,
        state: AsyncState,
        labels: Mapping[str, str] | None,
        timeout: float | None = None,
        progress: Progress | None = None,
        act: JobAct | None = None,
    ) -> Operation[Handle]:
        """Do Flink's replace: set a new state of a handle if ``version`` is its current version; the same commit enters
        ``act`` into the history of the job. Raises `NotExist`, `VersionMismatch`, `NotLocked`, `LabelsLost`.
        """
        headers = {**if_match(version), **_act_header(act)}
        return (yield from self._write(REPLACE, name, state, labels, headers, timeout, progress))

    def exists(self, name: str, timeout: float | None = None) -> Operation[str | None]:
        """Do Flink's exists: return the version of a handle; None if there is no such handle. Raises `Corrupt`."""
        deadline = self.caller.clock() + (self.caller.timeout if timeout is None else timeout)
        try:
            request = Request(*self._at(EXISTS, name), answers.version)
            reply = yield from self.caller.call(request, timeout=timeout)
        except NotExist:
            return None
        except ServerFault:  # an answer to HEAD has no body that describes the error
            return (yield from self.get(name, deadline - self.caller.clock())).version
        return reply.value

    def get(self, name: str, timeout: float | None = None) -> Operation[Handle]:
        """Return the record of a handle without locking the handle. Raises `NotExist`, `Corrupt`."""
        request = Request(*self._at(GET_HANDLE, name), answers.document(answers.handle_named(name)))
        return (yield from self.caller.call(request, timeout=timeout)).value

    def download(
        self,
        name: str,
        version: str | None,
        timeout: float | None = None,
        *,
        whole: bool = False,
        progress: Progress | None = None,
    ) -> Operation[None]:
        """Emit the state of a handle in chunks; the first chunk is empty. With ``version``, only that version is read.
        The other arguments and the errors are those of the function `download`.
        """
        _, record = self._at(GET_HANDLE, name)
        _, state = self._at(READ_STATE, name)
        return download(self.caller, state, version, record=record, timeout=timeout, whole=whole, progress=progress)

    def get_and_lock(self, name: str, timeout: float | None = None) -> Operation[Handle]:
        """Do Flink's getAndLock: lock a handle and return its record. Raises `NotExist`, `Corrupt` (and then holds no
        lock).
        """
        reader = answers.document(answers.handle_named(name))
        return (yield from self.send(*self._at(GET_AND_LOCK, name), reader, timeout=timeout)).value

    def get_all_and_lock(self, timeout: float | None = None) -> Operation[LockedHandles]:
        """Do Flink's getAllAndLock: lock all handles, and return the records of the handles and the list of damaged
        ones.
        """
        reader = answers.document(answers.locked)
        return (yield from self.send(*self.at(GET_ALL_AND_LOCK), reader, timeout=timeout)).value

    def get_all_handles(
        self, page_size: int, timeout: float | None = None, *, with_damaged: bool = False
    ) -> Operation[None]:
        """Do Flink's getAllHandles: fetch the list of handles page after page, each within ``timeout``, and emit each
        `Handle`.

        A handle whose record is damaged is emitted as a `CorruptHandle` if ``with_damaged``; otherwise it is only
        logged.
        """
        token: str | None = None
        while True:
            call = self.at(GET_ALL_HANDLES, limit=page_size, token=token)
            request = Request(*call, answers.document(answers.page(token)))
            reply = yield from self.caller.call(request, timeout=timeout)
            found, corrupt, token = reply.value
            for damaged in corrupt:
                if with_damaged:
                    yield Emit(damaged)
                else:
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

    def release_and_try_remove(
        self, name: str, version: str | None, timeout: float | None = None
    ) -> Operation[Removal]:
        """Do Flink's releaseAndTryRemove: release the session's lock, and remove the handle unless other sessions hold
        it.

        Raises `VersionMismatch` if the handle does not have the given ``version``, and `DiscardFailed` if its bytes
        could not be deleted.
        """
        headers = {} if version is None else if_match(version)
        reader = answers.document(answers.removal)
        headers = {**headers, **self.epoch_header()}
        return (yield from self.send(*self._at(RELEASE_AND_TRY_REMOVE, name), reader, headers, timeout=timeout)).value

    def clear_entries(self, timeout: float | None = None) -> Operation[int]:
        """Do Flink's clearEntries: remove all handles, and return how many there were."""
        reader = answers.document(answers.cleared)
        return (yield from self.send(*self.at(CLEAR_ENTRIES), reader, self.epoch_header(), timeout=timeout)).value

    def drop_job(self, timeout: float | None = None) -> Operation[DroppedJob]:
        """Drop the job: all handles, files, snapshots and savepoints of the store, under its epoch."""
        reader = answers.document(answers.dropped_job)
        return (yield from self.send(*self.at(DROP_JOB), reader, self.epoch_header(), timeout=timeout)).value

    def report_rows(self, directory: str, rows: Mapping[int, int], timeout: float | None = None) -> Operation[int]:
        """Enter the input rows of batches of the query in ``directory`` into the history, and return for how many."""
        batches = [{"batch": batch, "input_rows": number} for batch, number in rows.items()]
        reader = answers.document(answers.rows_entered)
        headers = {**JSON, **self.epoch_header()}
        body = json_body({"directory": directory, "batches": batches})
        return (yield from self.send(*self.at(REPORT_ROWS), reader, headers, body, timeout=timeout)).value

    def restore_history(
        self, entries: Iterable[HistoryEntry], saved: datetime, source: str, timeout: float | None = None
    ) -> Operation[int]:
        """Restore a saved history, the oldest entry first, and return how many entries the service has entered."""
        body = {"saved": time_text(saved), "source": checked_name(source, "source"), "entries": restorable(entries)}
        reader = answers.document(answers.history_restored)
        try:
            return (
                yield from self.send(*self.at(RESTORE_JOB_HISTORY), reader, JSON, json_body(body), timeout=timeout)
            ).value
        except InvalidRequest as refused:
            if refused.code not in (Code.METHOD_NOT_ALLOWED, Code.NO_ROUTE):
                raise
            raise NotSupported(
                Code.NOT_SUPPORTED, "this service is of a release that restores no histories"
            ) from refused

    def release(self, name: str, timeout: float | None = None) -> Operation[None]:
        """Do Flink's release: release the session's lock on a handle."""
        yield from self.send(*self._at(RELEASE, name), answers.nothing, timeout=timeout)

    def release_all(self, timeout: float | None = None) -> Operation[None]:
        """Do Flink's releaseAll: release all locks of the session in this store."""
        yield from self.send(*self.at(RELEASE_ALL), answers.nothing, timeout=timeout)

    def current_epoch(self, timeout: float | None = None) -> Operation[Epoch]:
        """Ask for the store's current epoch, whichever session holds it."""
        request = Request(*self.at(GET_EPOCH), answers.document(answers.epoch))
        return (yield from self.caller.call(request, timeout=timeout)).value

    def campaign(self, wait: float | None, if_stopped: bool = False) -> Operation[Epoch]:
        """Wait up to ``wait`` seconds (None: for ever) for the epoch, and act under it from then on.

        The campaign asks the service again and again, each time for at most `POLL_SECONDS`. A repeated request is safe
        even if the outcome of the last one is unknown: a session that already holds the epoch is granted the same epoch
        again. Neither another holder nor an outage ends the wait. After ``wait`` seconds (at least one) the campaign
        sends no more requests; it waits for the last answer as long as one attempt may take, and then raises
        `EpochHeld` or the error of the last request. If the session is lost, it raises `SessionLost` at once. It
        also waits for a job that a person has stopped, unless ``if_stopped``.
        """
        clock = self.caller.clock
        deadline = math.inf if wait is None else clock() + wait
        while True:
            left = max(0.0, deadline - clock())
            try:
                epoch = yield from self.poll_epoch(min(POLL_SECONDS, left), left, if_stopped)
            except InvalidRequest:
                if not if_stopped:
                    raise
                if_stopped = False  # a service of an earlier release does not know it, and stops no jobs
            except (EpochHeld, *OUTAGES_OR_DOUBT) as error:
                self._log_stop(error)
                if clock() + BETWEEN_SECONDS >= deadline:
                    raise
                yield Sleep(BETWEEN_SECONDS)
            else:
                self.epoch = epoch.epoch
                return epoch

    def poll_epoch(self, wait: float, within: float = math.inf, if_stopped: bool = False) -> Operation[Epoch]:
        """Ask for the epoch once, and return it. If another session holds it, the service delays its refusal for up to
        ``wait`` seconds, in case the epoch becomes free. No attempt begins after ``within`` seconds. Raises
        `EpochHeld`.
        """
        within = max(within, LEAST_TO_ASK)
        reply = yield from self.send(
            *self.at(CAMPAIGN),
            answers.document(answers.epoch_of(self.context.session)),
            JSON,
            json_body({"wait": wait, **({"if_stopped": True} if if_stopped else {})}),
            timeout=min(self.caller.timeout + wait, within + self.caller.attempt_timeout),
            begin_within=within,
            wait=wait,
        )
        return reply.value

    def _log_stop(self, error: MilepostError) -> None:
        """Log once that a person has stopped the job for whose epoch this session waits, and once that it was
        started.
        """
        if isinstance(error, EpochHeld) and error.stopped is not self._told_of_stop:
            self._told_of_stop = error.stopped
            if error.stopped:
                log.warning("standing by until the job is started: %s", error.detail)
            else:
                log.warning("standing by: the job was started, and %s leads %s", error.holder, self.store)

    def file_credential(self, timeout: float | None = None) -> Operation[FileCredential | None]:
        """Ask for the credential for the store's files under the epoch that the session holds; None if Hadoop needs no
        credential.

        Raises `Fenced` if the session does not hold the epoch.
        """
        reader = answers.document(file_answers.file_credential)
        try:
            return (yield from self.send(*self.at(GET_CREDENTIALS), reader, timeout=timeout)).value
        except NotSupported:
            return None

    def resign(self, timeout: float | None = None) -> Operation[None]:
        """Give up the epoch. Raises `Fenced` if another session holds it."""
        yield from self.send(*self.at(RESIGN), answers.nothing, timeout=timeout)
        self.epoch = None

    def _write(
        self,
        operation: RestOperation,
        name: str,
        state: AsyncState,
        labels: Mapping[str, str] | None,
        headers: dict[str, str],
        timeout: float | None,
        progress: Progress | None,
    ) -> Operation[Handle]:
        call = self._at(operation, name)
        reader = answers.document(answers.handle_named(name), *operation.success)
        sent = dict(labels or {})
        headers = {**headers, **label_headers(sent), **self.epoch_header()}
        self.context.headers()  # raises before a large state is read if the session is lost
        body: Body = yield Work(lambda: body_of(state))
        body.transfer = Transfer(progress, self.caller.clock)
        key = self.caller.new_key()
        deadline = key.since + (self.caller.timeout if timeout is None else timeout)
        reply = None
        if self.caller.direct.suits_body(body):
            reply = yield from self._write_directly(call, reader, headers, body, key, deadline)
        if reply is None:
            headers["Content-Type"] = STATE_MEDIA_TYPE
            left = deadline - self.caller.clock()
            reply = yield from self.send(*call, reader, headers, body, timeout=left, key=key)
        body.transfer.end_stored(reply.value.size)
        check_labels(reply.value, sent, request_id_of(reply.answer))
        return reply.value

    def _write_directly(
        self,
        call: tuple[str, str],
        reader: Reader[Handle],
        headers: Mapping[str, str],
        body: Body,
        key: Key,
        deadline: float,
    ) -> Operation[Reply[Handle] | None]:
        """Put the bytes into the blob store by a signed URL, then add or replace the handle with the request ``call``,
        which carries the id of the upload in place of the bytes.

        Returns None if that is impossible, so that the bytes must go through the service.
        """

        def announce(request: Body, timeout: float) -> Operation[Reply[Upload]]:
            announced = answers.document(upload_of, 201)
            return self.send(
                *self.at(ANNOUNCE_UPLOAD), announced, JSON, request, timeout=timeout, final=REFUSED_FOR_NOW
            )

        for _ in range(2):  # twice: the upload may expire before the service gets its id
            upload = yield from put(self.caller, announce, body, deadline)
            if upload is None:
                break
            try:
                return (
                    yield from self.send(
                        *call,
                        reader,
                        {**headers, "Content-Type": UPLOAD_MEDIA_TYPE},
                        json_body({"upload": upload, "size": body.size, "sha256": body.sha256}),
                        timeout=deadline - self.caller.clock(),
                        wait=(body.size or 0) / EXAMINED_BYTES_PER_SECOND,
                        key=key,
                    )
                )
            except UploadUnknown:  # an unknown upload proves that neither this attempt nor an earlier one was applied
                continue
        return None

    def _at(self, operation: RestOperation, name: str) -> tuple[str, str]:
        """Return the method and the path of a request about one handle. Raises `InvalidName`."""
        return self.at(operation, checked_name(name))


def _act_header(act: JobAct | None) -> dict[str, str]:
    if act is None:
        return {}
    return {Header.ACT: json.dumps({name: value for name, value in asdict(act).items() if value is not None})}

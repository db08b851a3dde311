"""The errors that the SDK raises; they all derive from `MilepostError`.

::

    MilepostError
    ├── Problem                       the service answered with a problem (``code``, ``retryable``, ``outcome``)
    │   ├── BadRequest                the request is wrong, and can never succeed as it is
    │   │   ├── InvalidName
    │   │   ├── InvalidRequest        also: session or If-Match missing, wrong media type, unknown path, bad range
    │   │   ├── DigestMismatch
    │   │   ├── IdempotencyMismatch
    │   │   └── TooLarge
    │   ├── AccessDenied              credentials missing, wrong or insufficient
    │   ├── NotExist
    │   ├── UploadUnknown
    │   ├── AlreadyExists
    │   ├── VersionMismatch           ``current`` holds the version that is there
    │   ├── NotDirectory
    │   ├── NotEmpty
    │   ├── NotLocked
    │   ├── EpochHeld                 a campaign's wait ended; ``holder`` and ``epoch`` say who leads
    │   ├── Fenced                    a newer driver leads this store; stop writing
    │   ├── CellsDiffer               client and cell have different lists of cells; no job was begun
    │   ├── Unsafe                    no driver could go on from what an act would leave; nothing was changed
    │   ├── JobElsewhere              the job was moved, or is being moved, to another cell; ``extras`` name it
    │   ├── SessionLost
    │   │   ├── SessionExpired
    │   │   └── SessionUnknown
    │   ├── Damaged
    │   │   ├── Corrupt
    │   │   └── BlobMissing
    │   ├── Compacted
    │   ├── NotSupported
    │   ├── DiscardFailed             the handle was removed, but its bytes are still there
    │   ├── OutcomeUnknown            a write was sent, and its outcome is not known; read back
    │   ├── StorageFull
    │   ├── Unavailable               no leader, no storage, shutting down or too busy; nothing was applied
    │   └── ServerFault               an unexpected error inside the service
    ├── ConnectionFailed              no replica could be reached; nothing that was sent can have been applied
    ├── DeadlineExceeded              the caller's deadline passed, and certainly nothing was applied
    ├── StateTruncated                the connection was cut inside a state, or its bytes do not match the digest
    ├── LabelsLost                    a state was written, but without its labels; ``handle`` is what is stored
    ├── CleanUpLags                   too many old checkpoints still wait to be removed; nothing new was added
    ├── NoIntactCheckpoint            all stored checkpoints are damaged; nothing was removed
    ├── SparkDriverError              `milepost.spark` refuses to continue; ``str()`` says why and what to do
    │   ├── UnsafeQuery               exactly-once cannot be guaranteed with this query, session or option
    │   ├── WrongCheckpoint           the query does not go on from the job's checkpoint, or not from what was published
    │   ├── NoSafeCheckpoint          the job's checkpoint is behind what it has published
    │   │   └── CheckpointDamaged     files are damaged, and the job must not go on from there; ``damaged`` names them
    │   ├── RestartNeeded             the job went back because of damaged files, and has to be started once more
    │   ├── InputMissing              input files of the batch to replay were deleted
    │   ├── OffsetsExpired            Kafka no longer has records that a query would read next
    │   ├── JobUnknown                the service does not know the job that the output belongs to
    │   ├── NoProgress                drivers began one batch as often as allowed, and never finished it
    │   ├── JvmLost                   Spark's JVM ended or did not answer for too long; the epoch was given up
    │   ├── BatchTimeout              a batch took too long; it was stopped, and the epoch given up
    │   ├── SinkFailed                a sink could not write a batch; the next driver runs the batch again
    │   │   └── SinkRefused           its table belongs to another job or a newer driver, or does not fit the job
    │   ├── BatchesGone               published batches that were to be read are expired, or their files are gone
    │   ├── BatchesTakenBack          a restore has taken batches back that a stream has read
    │   └── RecordUnreadable          a job record or output manifest is damaged or of a newer schema
    ├── StateError                    managed state; `milepost.state.errors` draws what is below
    └── Closed                        the client, session or store was closed before the call

A write whose connection broke after it was sent ends as `OutcomeUnknown`, never as `ConnectionFailed`.

This module stays one long file: almost all classes have no body and are read beside the tree above, and programs import
and unpickle errors by the name of this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from milepost.types import Handle
from milepost.wire import PROBLEM_TYPE_PREFIX, PROBLEMS, Code, Outcome


class MilepostError(Exception):
    """The root of all errors that Milepost's SDK raises on purpose.

    ``request_id`` is the id of the failed request in the service's log; None if the error is not about a single
    request.
    """

    request_id: str | None = None

    def __repr__(self) -> str:
        about = "" if self.request_id is None else f", request_id={self.request_id!r}"
        return f"{type(self).__name__}({str(self)!r}{about})"


class ConnectionFailed(MilepostError):
    """No replica could be reached; nothing that was sent can have been applied."""


class DeadlineExceeded(MilepostError):
    """The deadline of the call passed, and it is certain that the service has applied nothing."""


class StateTruncated(MilepostError):
    """A state ended early, or its bytes do not match the digest that came with it."""


class Closed(MilepostError):
    """The client, session or store was closed before this call."""


class LabelsLost(MilepostError):
    """A state was written, but not with its labels: a proxy dropped their header, or an older service did not read it.

    ``handle`` is the handle as it is stored now. Do not write the state again; `replace` at the handle's version sets
    the labels.
    """

    def __init__(self, message: str, handle: Handle) -> None:
        super().__init__(message)
        self.handle = handle

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.handle), {"request_id": self.request_id}


class CleanUpLags(MilepostError):
    """Too many old checkpoints could not be removed, even at another attempt; no new checkpoint was added."""


class NoIntactCheckpoint(MilepostError):
    """All stored checkpoints of the job are damaged; none was removed. This error keeps a job from starting without a
    checkpoint unnoticed.
    """


class SparkDriverError(MilepostError):
    """The root of the errors with which `milepost.spark` refuses to continue, because rows could be lost or published
    twice.
    """


class UnsafeQuery(SparkDriverError):
    """Exactly-once cannot be guaranteed with this query, session or option; nothing was published."""


class WrongCheckpoint(SparkDriverError):
    """The query does not continue from the checkpoint that this driver found, or Spark cannot read that checkpoint."""


class NoSafeCheckpoint(SparkDriverError):
    """The job cannot continue from its checkpoint without repeating published batches."""


class CheckpointDamaged(NoSafeCheckpoint):
    """Files of the job are damaged, and the job does not continue: falling back is not allowed, or no snapshot is safe.

    ``damaged`` lists the paths of up to a hundred damaged files.
    """

    def __init__(self, message: str, damaged: Sequence[str]) -> None:
        super().__init__(message)
        self.damaged = tuple(damaged)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.damaged)


class RestartNeeded(SparkDriverError):
    """The job was rolled back to a snapshot because of damaged files. Start it once more: the next driver runs the
    batches after the snapshot again.
    """


class InputMissing(SparkDriverError):
    """Input files of the batch that must be replayed were deleted; its replay would differ from the first run."""


class LostOffsets(NamedTuple):
    """A query would read a Kafka partition from offset ``wanted``, but the brokers have only ``earliest`` to
    ``latest``.
    """

    topic: str
    partition: int
    wanted: int
    earliest: int
    latest: int


class OffsetsExpired(SparkDriverError):
    """Kafka no longer has records that a query would read next; nothing was read. ``lost`` lists the partitions."""

    def __init__(self, message: str, lost: Sequence[LostOffsets]) -> None:
        super().__init__(message)
        self.lost = tuple(lost)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.lost)


class JobUnknown(SparkDriverError):
    """The service does not know the job that wrote the output: the address leads to another service, or the service's
    storage was replaced or emptied.
    """


class NoProgress(SparkDriverError):
    """Drivers have begun one batch as often as ``max_entries`` of `lead` allows, and none of them has finished it.

    This driver also raises it if drivers have begun the batch three times, and this driver lost its session because its
    Python process stood still during the batch.
    """


class JvmLost(SparkDriverError):
    """Spark's JVM has ended, or did not answer for too long.

    The driver resigned its epoch, so that a standby can take over.
    """


class BatchTimeout(SparkDriverError):
    """A batch took longer than allowed. The driver stopped it and resigned its epoch, so that a standby can take
    over.
    """


class SinkFailed(SparkDriverError):
    """A sink could not write a batch, and the query ends. Whether the batch was written is known to the sink's fence:
    the next driver runs the batch again, and writes it if it is not there.
    """


class SinkRefused(SinkFailed):
    """The table of a sink must not get this batch: another job or a newer driver writes there, or the table has other
    batches than the job has published. Nothing was written.
    """


class BatchesGone(SparkDriverError):
    """Batches that a reader asked for have expired, or their files are missing; ``batches`` lists the numbers of these
    batches.
    """

    def __init__(self, message: str, batches: Sequence[int]) -> None:
        super().__init__(message)
        self.batches = tuple(batches)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.batches)


class BatchesTakenBack(SparkDriverError):
    """A restore of a job has taken back published batches that a stream has read; the stream read nothing more.

    ``epoch`` is the epoch of the restore, the value of the option ``acceptRestore`` with which the stream goes on.
    """

    def __init__(self, message: str, epoch: int) -> None:
        super().__init__(message)
        self.epoch = epoch

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.epoch)


class RecordUnreadable(SparkDriverError):
    """A job record or an output manifest is damaged, or has a schema that this version does not know."""


class Problem(MilepostError):
    """The service answered with a problem document.

    ``outcome`` says how the write ended; for a read it is always ``not_applied``. ``extras`` holds the problem's
    members that are specific to its code (``current``, ``holder``, ``epoch``, ``locks`` …).
    """

    def __init__(
        self,
        code: Code,
        detail: str = "",
        *,
        status: int | None = None,
        retryable: bool | None = None,
        outcome: Outcome | None = None,
        extras: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        kind = PROBLEMS[code]
        super().__init__(f"{code.value}: {detail or kind.title}")
        self.code = code
        self.detail = detail
        self.status = kind.status if status is None else status
        self.retryable = kind.retryable if retryable is None else retryable
        self.outcome = kind.outcome if outcome is None else outcome
        self.extras: dict[str, Any] = dict(extras or {})
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: getattr(self, name) for name in ("status", "retryable", "outcome", "extras", "retry_after")}
        return _again, (type(self), self.code, self.detail, fields, self.request_id)

    def __repr__(self) -> str:
        about = "" if self.request_id is None else f", request_id={self.request_id!r}"
        return f"{type(self).__name__}({str(self)!r}, status={self.status}, outcome={self.outcome.value!r}{about})"

    @property
    def current(self) -> Any:
        """The current version (`VersionMismatch`) or epoch (`Fenced`); None if the answer did not contain it."""
        return self.extras.get("current")


def _again(kind: type[Problem], code: Code, detail: str, fields: dict[str, Any], request_id: str | None) -> Problem:
    """Make a problem again from its pickled parts, for example when an executor has sent it to its driver."""
    problem = kind(code, detail, **fields)
    if request_id is not None:
        problem.request_id = request_id
    return problem


class BadRequest(Problem):
    """The request is invalid; sending the same request again cannot succeed."""


class InvalidName(BadRequest):
    """A name has a character or a length that is not allowed."""


class InvalidRequest(BadRequest):
    """The request is malformed or incomplete, or no route takes it."""


class DigestMismatch(BadRequest):
    """The bytes that reached the service do not match the digest or the size that the client announced."""


class IdempotencyMismatch(BadRequest):
    """A different request was sent under the same idempotency key before."""


class TooLarge(BadRequest):
    """The request exceeds a limit of the service; ``detail`` says which."""


class AccessDenied(Problem):
    """Credentials are missing, wrong or insufficient."""


class NotExist(Problem):
    """The handle does not exist."""


class UploadUnknown(Problem):
    """The service does not know the named upload, or the bytes of the upload are not in the blob store."""


class AlreadyExists(Problem):
    """The handle exists already."""


class VersionMismatch(Problem):
    """The handle does not have the version that the request names; ``current`` is the version that it has."""


class NotDirectory(Problem):
    """A path that must be a directory of a job's tree is a file (``not-directory``)."""


class NotEmpty(Problem):
    """A directory of a job's tree is not empty (``not-empty``)."""


class NotLocked(Problem):
    """The session holds no lock on the handle it wants to replace."""


class EpochHeld(Problem):
    """Another session holds the epoch, and did not give it up during the wait of the campaign; or a person has stopped
    the job, and did not start it meanwhile.
    """

    @property
    def holder(self) -> Any:
        """The name by which the holder of the epoch describes itself; None if the answer did not contain it."""
        return self.extras.get("holder")

    @property
    def epoch(self) -> Any:
        """The number of the epoch that the other session holds; None if the answer did not contain it."""
        return self.extras.get("epoch")

    @property
    def stopped(self) -> bool:
        """Whether no session holds the epoch, but a person has stopped the job; the error's text says who."""
        return self.extras.get("stopped") is not None


class Fenced(Problem):
    """Another epoch is current: a newer driver leads this store, and this driver must stop writing."""


class CellsDiffer(Problem):
    """The client and a cell have different lists of cells, so that the client may begin no job: another client, with
    the cell's list, might begin it in another cell. Or two cells have the job, so that no driver may lead it. Nothing
    was begun.
    """


class Unsafe(Problem):
    """No driver could go on from the job that an act of the service would leave, so nothing was changed."""


class JobElsewhere(Problem):
    """The job is in another cell: it was moved there, or is not yet moved here. Nothing was changed. The extra ``cell``
    names the other cell, and ``epoch`` the epoch under which the job was moved.
    """


class SessionLost(Problem):
    """The session that sent the request is no longer alive, and its locks are released."""


class SessionExpired(SessionLost):
    """The session ended within the last hour, for which the service remembers ended sessions."""


class SessionUnknown(SessionLost):
    """The service does not know the session: it never existed, or ended long ago."""


class Damaged(Problem):
    """A stored record, or the bytes that it points to, cannot be read completely."""


class Corrupt(Damaged):
    """A stored record, or the bytes that it points to, differ from those that were written."""


class BlobMissing(Damaged):
    """A handle or a file exists, but its bytes are missing from the blob store."""


class Compacted(Problem):
    """The service no longer keeps the requested events. List the handles, and follow the events from the revision of
    that listing.
    """


class NotSupported(Problem):
    """This deployment of the service does not support the request."""


class DiscardFailed(Problem):
    """The handle was removed, but its bytes could not be deleted yet."""


class OutcomeUnknown(Problem):
    """A write was sent, and its outcome is not known. Read back what is stored before you do anything else."""


class StorageFull(Problem):
    """The storage is full; nothing was applied."""


class Unavailable(Problem):
    """The service cannot carry out the request at the moment, and has applied nothing; a later retry may succeed."""


class ServerFault(Problem):
    """The service failed because of an unexpected error."""


ERROR_OF: dict[Code, type[Problem]] = {
    Code.SESSION_REQUIRED: InvalidRequest,
    Code.INCOMPLETE_BODY: InvalidRequest,
    Code.UNAUTHENTICATED: AccessDenied,
    Code.FORBIDDEN: AccessDenied,
    Code.NOT_EXIST: NotExist,
    Code.SESSION_UNKNOWN: SessionUnknown,
    Code.UPLOAD_UNKNOWN: UploadUnknown,
    Code.NO_ROUTE: InvalidRequest,
    Code.METHOD_NOT_ALLOWED: InvalidRequest,
    Code.NOT_ACCEPTABLE: InvalidRequest,
    Code.UNSUPPORTED_MEDIA_TYPE: InvalidRequest,
    Code.RANGE_NOT_SATISFIABLE: InvalidRequest,
    Code.ALREADY_EXISTS: AlreadyExists,
    Code.NOT_DIRECTORY: NotDirectory,
    Code.NOT_EMPTY: NotEmpty,
    Code.NOT_LOCKED: NotLocked,
    Code.HELD: EpochHeld,
    Code.FENCED: Fenced,
    Code.CELLS_DIFFER: CellsDiffer,
    Code.UNSAFE: Unsafe,
    Code.ELSEWHERE: JobElsewhere,
    Code.SESSION_EXPIRED: SessionExpired,
    Code.BLOB_MISSING: BlobMissing,
    Code.COMPACTED: Compacted,
    Code.LENGTH_REQUIRED: InvalidRequest,
    Code.TOO_LARGE: TooLarge,
    Code.VERSION_MISMATCH: VersionMismatch,
    Code.PRECONDITION_REQUIRED: InvalidRequest,
    Code.INVALID_NAME: InvalidName,
    Code.INVALID_REQUEST: InvalidRequest,
    Code.DIGEST_MISMATCH: DigestMismatch,
    Code.IDEMPOTENCY_MISMATCH: IdempotencyMismatch,
    Code.TOO_MANY_REQUESTS: Unavailable,
    Code.CORRUPT: Corrupt,
    Code.INTERNAL: ServerFault,
    Code.NOT_SUPPORTED: NotSupported,
    Code.NO_LEADER: Unavailable,
    Code.STORAGE_UNAVAILABLE: Unavailable,
    Code.DISCARD_FAILED: DiscardFailed,
    Code.OUTCOME_UNKNOWN: OutcomeUnknown,
    Code.SHUTTING_DOWN: Unavailable,
    Code.STORAGE_FULL: StorageFull,
}

_ENVELOPE = frozenset({"type", "title", "status", "detail", "retryable", "outcome"})


def problem_from(status: int, body: Mapping[str, Any], retry_after: float | None = None) -> Problem:
    """Make the typed error for a problem document; a document with an unknown code becomes a `ServerFault` with the
    same text.
    """
    type_ = str(body.get("type", ""))
    detail = str(body.get("detail") or body.get("title") or "")
    try:
        code = Code(type_.removeprefix(PROBLEM_TYPE_PREFIX))
    except ValueError:
        code = Code.INTERNAL
        detail = f"{status} {type_} {detail}".strip()
    outcome = body.get("outcome")
    retryable = body.get("retryable")
    return ERROR_OF[code](
        code,
        detail,
        status=status,
        retryable=retryable if isinstance(retryable, bool) else None,
        outcome=Outcome(outcome) if outcome in {o.value for o in Outcome} else None,
        extras={k: v for k, v in body.items() if k not in _ENVELOPE},
        retry_after=retry_after,
    )

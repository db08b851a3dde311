"""Milepost's SDK, which answers two questions: which checkpoint is the latest, and who may write the next one.

With a service on ``http://127.0.0.1:7070`` this works when pasted::

    import milepost

    with milepost.Client("http://127.0.0.1:7070") as client, client.session(holder="quick-start") as session:
        store = session.store("quick-start")
        store.campaign()
        handle = store.add_and_lock("latest", b"batch 7", labels={"batch": "7"})
        handle = store.replace("latest", handle.version, b"batch 8")
        print(store.read("latest"), handle.version, store.epoch)
        store.release_and_try_remove("latest")
        store.resign()

`milepost.aio` offers the same to coroutines, `milepost.checkpoints` keeps the last few checkpoints of a job, and
`milepost.errors` shows the tree of errors.
"""

from milepost import aio, checkpoints, codecs, errors
from milepost.client import Client
from milepost.core.body import AsyncState, State
from milepost.core.calls.credentials import AsyncToken, Token
from milepost.core.progress import Progress
from milepost.errors import (
    AccessDenied,
    AlreadyExists,
    BadRequest,
    BlobMissing,
    CellsDiffer,
    Closed,
    Compacted,
    ConnectionFailed,
    Corrupt,
    Damaged,
    DeadlineExceeded,
    DigestMismatch,
    DiscardFailed,
    EpochHeld,
    Fenced,
    IdempotencyMismatch,
    InvalidName,
    InvalidRequest,
    JobElsewhere,
    LabelsLost,
    MilepostError,
    NotDirectory,
    NotEmpty,
    NotExist,
    NotLocked,
    NotSupported,
    OutcomeUnknown,
    Problem,
    ServerFault,
    SessionExpired,
    SessionLost,
    SessionUnknown,
    StateTruncated,
    StorageFull,
    TooLarge,
    Unavailable,
    Unsafe,
    VersionMismatch,
)
from milepost.files import JobFiles
from milepost.job_types import BegunBatch, DroppedJob, HistoryEntry, JobAct, JobInfo, JobState, JobSummary, StandbyInfo
from milepost.session import Session
from milepost.store import StateHandleStore
from milepost.types import (
    Clone,
    CorruptHandle,
    DamagedFile,
    Epoch,
    FileCredential,
    Handle,
    JobFile,
    KeptSnapshots,
    LockedHandles,
    Process,
    Removal,
    Rights,
    Savepoint,
    SessionInfo,
    SessionSummary,
    Snapshot,
    StateAddition,
    StateReplacement,
    Status,
    SteppedDown,
    StoreEvent,
    StoreSummary,
    Verification,
    Wish,
    WrittenFile,
)
from milepost.wire import Code, Outcome

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "Client",
    "JobFiles",
    "Session",
    "StateHandleStore",
    "AsyncState",
    "AsyncToken",
    "Progress",
    "State",
    "Token",
    "aio",
    "checkpoints",
    "codecs",
    "errors",
    "AccessDenied",
    "AlreadyExists",
    "BadRequest",
    "BlobMissing",
    "Closed",
    "Compacted",
    "ConnectionFailed",
    "Corrupt",
    "Damaged",
    "DeadlineExceeded",
    "DigestMismatch",
    "DiscardFailed",
    "EpochHeld",
    "Fenced",
    "CellsDiffer",
    "JobElsewhere",
    "IdempotencyMismatch",
    "InvalidName",
    "InvalidRequest",
    "LabelsLost",
    "MilepostError",
    "NotExist",
    "NotDirectory",
    "NotEmpty",
    "NotLocked",
    "NotSupported",
    "OutcomeUnknown",
    "Problem",
    "ServerFault",
    "SessionExpired",
    "SessionLost",
    "SessionUnknown",
    "StateTruncated",
    "StorageFull",
    "TooLarge",
    "Unavailable",
    "Unsafe",
    "VersionMismatch",
    "Clone",
    "CorruptHandle",
    "Snapshot",
    "DamagedFile",
    "DroppedJob",
    "Epoch",
    "FileCredential",
    "Handle",
    "JobFile",
    "KeptSnapshots",
    "LockedHandles",
    "Savepoint",
    "Removal",
    "Rights",
    "SessionInfo",
    "SessionSummary",
    "Process",
    "StandbyInfo",
    "StateAddition",
    "StateReplacement",
    "BegunBatch",
    "JobAct",
    "JobInfo",
    "JobState",
    "JobSummary",
    "HistoryEntry",
    "Status",
    "SteppedDown",
    "StoreEvent",
    "StoreSummary",
    "Verification",
    "Wish",
    "WrittenFile",
    "Code",
    "Outcome",
]

"""The contracts between Milepost and its backends.

There are three storage contracts: `PointerStore` (journals of records behind a fenced head), `Election` (which replica
may try to lead, and until when) and `BlobStore` (immutable bytes). A fourth, `Accounts`, identifies the owners of
tokens that another system issues. Names, locks, sessions, epochs and idempotency keys belong to the service's rules: a
backend stores opaque keys and values and never interprets them.
"""

from milepost_backends.contract.backend import (
    Account,
    Accounts,
    Backend,
    BlobsSettings,
    PointersSettings,
    parse_options,
)
from milepost_backends.contract.blobs import (
    PATIENCE_SECONDS,
    BlobInfo,
    BlobStore,
    SignedRequest,
    check_key,
    check_prefix,
)
from milepost_backends.contract.elections import Election, Leadership
from milepost_backends.contract.errors import (
    BackendError,
    BlobExists,
    BlobMissing,
    BlobSizeDiffers,
    BlobTruncated,
    JournalDamaged,
    Misconfigured,
    StorageFull,
    StorageRefused,
    StorageUnavailable,
    TakeOverLost,
    UnsafeKey,
    loss_of,
)
from milepost_backends.contract.pointers import (
    NO_RECORDS,
    Change,
    Commit,
    CommitRefused,
    Done,
    GroupLimits,
    Head,
    PointerStore,
    Refusal,
    Unknown,
    check_of,
)

__all__ = [
    "NO_RECORDS",
    "PATIENCE_SECONDS",
    "Account",
    "Accounts",
    "Backend",
    "BackendError",
    "BlobExists",
    "BlobInfo",
    "BlobMissing",
    "BlobSizeDiffers",
    "BlobStore",
    "BlobTruncated",
    "BlobsSettings",
    "Change",
    "Commit",
    "Done",
    "Election",
    "GroupLimits",
    "Head",
    "JournalDamaged",
    "Leadership",
    "Misconfigured",
    "PointerStore",
    "PointersSettings",
    "Refusal",
    "CommitRefused",
    "SignedRequest",
    "StorageFull",
    "StorageRefused",
    "StorageUnavailable",
    "TakeOverLost",
    "Unknown",
    "UnsafeKey",
    "check_key",
    "check_of",
    "check_prefix",
    "loss_of",
    "parse_options",
]

"""The errors that a backend raises to the service.

::

    BackendError
    ├── Misconfigured          wrong address, credentials, file system; retrying does not help
    ├── StorageUnavailable     the storage does not answer; a *read* or an idempotent call may be retried
    │   └── StorageRefused     the storage answers and refuses; the backend does not repeat the call
    ├── StorageFull            the storage has no room for the bytes
    ├── TakeOverLost           another process took the journal over; this one does not lead
    ├── JournalDamaged         the stored journal fails its verification; it is not served
    ├── UnsafeKey              a key is not a path of safe segments; a bug of the caller, or a damaged record
    ├── BlobExists             there is already a blob under this key, and it stays
    ├── BlobMissing            there is no blob under this key
    ├── BlobSizeDiffers        the blob has another size than its reader expects
    └── BlobTruncated          the blob ended before its announced size

A commit does not raise: it returns `Done`, `CommitRefused` or `Unknown`. Exceptions of libraries never reach the
service; each backend translates them in one place, with ``raise … from``.
"""

from __future__ import annotations

import hashlib


class BackendError(Exception):
    """The root of all errors that a backend may raise."""


class Misconfigured(BackendError):
    """The backend cannot work with its configuration; the message says what to change, and never contains a secret."""


class StorageUnavailable(BackendError):
    """The storage behind a backend, such as ZooKeeper or S3, does not answer at the moment."""


class StorageRefused(StorageUnavailable):
    """The storage behind a backend refuses the call until an operator repairs something: rights, a bucket, a clock."""


class StorageFull(BackendError):
    """The storage behind a backend has no room for the bytes to be written."""


class TakeOverLost(BackendError):
    """This process cannot take the journal over, or has lost it: another process moved its head, and so leads."""


class JournalDamaged(BackendError):
    """The stored journal fails its verification: a part is missing or altered, or an older copy was put in its place.

    ``what`` names the damage and its remedy. ``evidence`` is a text that distinguishes this damage from any other, and
    is the same each time the damage is found; None means that the loss cannot be accepted. ``loss`` is the hash of
    ``evidence``. To continue without the lost data, the owner of the deployment passes this hash to ``--accept-loss``.
    That accepts this damage, and no later one.
    """

    def __init__(self, what: str, evidence: str | None = None) -> None:
        self.loss = None if evidence is None else loss_of(evidence)
        accept = f". To go on without what is lost, see docs/damage.md: --accept-loss {self.loss}" if self.loss else ""
        super().__init__(what + accept)


def loss_of(evidence: str) -> str:
    """Return the hash of the ``evidence`` of damage (see `JournalDamaged`): eight hexadecimal digits.

    With these digits, in ``--accept-loss``, the owner of a deployment accepts the loss of the damaged data.
    """
    return hashlib.blake2b(evidence.encode(), digest_size=4).hexdigest()


class UnsafeKey(BackendError):
    """A key is not a path of safe segments, so it might name a file or object outside of the pointer store or blob
    store.
    """


class BlobExists(BackendError):
    """A blob is already stored under the key of a put. Blobs are never overwritten."""


class BlobMissing(BackendError):
    """The blob store has no blob under this key."""


class BlobSizeDiffers(BackendError):
    """A blob has ``found`` bytes, but its reader expects ``expected`` bytes."""

    def __init__(self, found: int, expected: int) -> None:
        super().__init__(f"the blob has {found} bytes, not {expected}")
        self.found = found
        self.expected = expected

    @classmethod
    def check(cls, found: int, expected: int | None) -> None:
        """Raise this error if a blob of ``found`` bytes is not of the ``expected`` size, unless that is None."""
        if expected is not None and found != expected:
            raise cls(found, expected)


class BlobTruncated(BackendError):
    """A blob ended before its announced size, while it was read or written."""

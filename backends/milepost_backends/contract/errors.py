"""The errors that a backend raises to the service.

::

    BackendError
    ├── Misconfigured          wrong address, credentials, file system; retrying does not help
    ├── StorageUnavailable     the store does not answer; a *read* or an idempotent act may be retried
    │   └── StorageRefused     it answers, and would refuse the same call again, so the backend does not repeat it
    ├── StorageFull            the store has no room for the bytes
    ├── TakeOverLost           another process took the journal over; this one does not lead
    ├── JournalDamaged         what is stored does not prove itself, so nothing is served from it
    ├── UnsafeKey              a key is not a path of safe segments; a bug of the caller, or a damaged record
    ├── BlobExists             there is already a blob under this key, and it stays as it is
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
    """The store does not answer at the moment."""


class StorageRefused(StorageUnavailable):
    """The store refuses the call until an operator repairs something: rights, a bucket, a clock."""


class StorageFull(BackendError):
    """The store has no room for the bytes."""


class TakeOverLost(BackendError):
    """The head moved between reading it and taking over: another process leads."""


class JournalDamaged(BackendError):
    """The stored journal fails its verification: something is missing, altered, or an older copy.

    ``what`` names the damage and its remedy. ``evidence`` distinguishes this damage from any other, and stays the same
    each time the damage is found; None means that its loss cannot be accepted. ``loss`` is the hash of the evidence. An
    owner passes it to ``--accept-loss`` to continue without the lost data: that accepts this damage, and no later one.
    """

    def __init__(self, what: str, evidence: str | None = None) -> None:
        self.loss = None if evidence is None else loss_of(evidence)
        accept = f". To go on without what is lost, see docs/damage.md: --accept-loss {self.loss}" if self.loss else ""
        super().__init__(what + accept)


def loss_of(evidence: str) -> str:
    """Return the name by which an owner accepts the damage with this evidence: eight hexadecimal digits."""
    return hashlib.blake2b(evidence.encode(), digest_size=4).hexdigest()


class UnsafeKey(BackendError):
    """A key is not a path of safe segments, so it might name something outside of the store."""


class BlobExists(BackendError):
    """A put named a key that is taken; blobs are never overwritten."""


class BlobMissing(BackendError):
    """The store has no blob under this key."""


class BlobSizeDiffers(BackendError):
    """A blob has ``found`` bytes, but its reader expects ``expected``."""

    def __init__(self, found: int, expected: int) -> None:
        super().__init__(f"the blob has {found} bytes, not {expected}")
        self.found = found
        self.expected = expected

    @classmethod
    def check(cls, found: int, expected: int | None) -> None:
        """Raise this error if a size is expected, and the found one differs."""
        if expected is not None and found != expected:
            raise cls(found, expected)


class BlobTruncated(BackendError):
    """A blob ended before its announced size, while it was read or written."""

"""Errors that cross the border between a backend and the service.

::

    BackendError
    ├── Misconfigured          wrong address, credentials, file system; retrying does not help
    ├── StorageUnavailable     the store does not answer; a *read* or an idempotent act may be retried
    ├── StorageFull            no room for the bytes
    ├── TakeOverLost           another process took the journal over; this one does not lead
    ├── JournalDamaged         what is stored does not prove itself, so nothing is served from it
    ├── UnsafeKey              not a path of safe segments; a bug of the caller, or a damaged record
    ├── BlobExists             there is a blob under this key already, and it stays as it is
    ├── BlobMissing            no blob under this key
    └── BlobTruncated          the blob ended before its announced size

A commit does not raise: it returns `Done`, `Refused` or `Unknown`. Foreign exceptions never cross; each backend
translates its own in one place, with ``raise … from``.
"""

from __future__ import annotations

import hashlib


class BackendError(Exception):
    """The root of what a backend may raise."""


class Misconfigured(BackendError):
    """The backend cannot work as it is set up; the message says what to change. Never holds a secret."""


class StorageUnavailable(BackendError):
    """The store does not answer now."""


class StorageFull(BackendError):
    """There is no room for the bytes."""


class TakeOverLost(BackendError):
    """The head moved between reading and taking over: somebody else leads."""


class JournalDamaged(BackendError):
    """What is stored of a journal does not prove itself: something is missing, altered, or an older copy.

    ``what`` names it and says what to do. ``evidence`` is what tells this damage from any other, and stays the same
    each time it is found; None where no loss can be accepted. Its hash, ``loss``, is what an owner gives to
    ``--accept-loss`` to go on without what is lost: this damage is accepted then, and no later one.
    """

    def __init__(self, what: str, evidence: str | None = None) -> None:
        self.loss = None if evidence is None else loss_of(evidence)
        accept = f". To go on without what is lost, see docs/damage.md: --accept-loss {self.loss}" if self.loss else ""
        super().__init__(what + accept)


def loss_of(evidence: str) -> str:
    """The name of a damage that its owner may accept."""
    return hashlib.blake2b(evidence.encode(), digest_size=4).hexdigest()


class UnsafeKey(BackendError):
    """A key that is not a path of safe segments, so it might name something outside of the store."""


class BlobExists(BackendError):
    """A blob was to be written under a key that is taken; blobs are never overwritten."""


class BlobMissing(BackendError):
    """There is no blob under this key."""


class BlobTruncated(BackendError):
    """A blob ended before its announced size, while it was read or written."""

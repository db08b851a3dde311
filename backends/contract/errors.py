"""Errors that cross the border between a backend and the service.

::

    BackendError
    ├── Misconfigured          wrong address, credentials, file system; retrying does not help
    ├── StorageUnavailable     the store does not answer; a *read* or an idempotent act may be retried
    ├── StorageFull            no room for the bytes
    ├── TakeOverLost           another process took the journal over; this one does not lead
    ├── JournalDamaged         the head itself cannot be read
    ├── UnsafeKey              not a path of safe segments; a bug of the caller, or a damaged record
    ├── BlobExists             there is a blob under this key already, and it stays as it is
    ├── BlobMissing            no blob under this key
    └── BlobTruncated          the blob ended before its announced size

A commit does not raise: it returns `Done`, `Refused` or `Unknown`. Foreign exceptions never cross; each backend
translates its own in one place, with ``raise … from``.
"""


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
    """The head of a journal cannot be read, so nothing under it can be trusted."""


class UnsafeKey(BackendError):
    """A key that is not a path of safe segments, so it might name something outside of the store."""


class BlobExists(BackendError):
    """A blob was to be written under a key that is taken; blobs are never overwritten."""


class BlobMissing(BackendError):
    """There is no blob under this key."""


class BlobTruncated(BackendError):
    """A blob ended before its announced size, while it was read or written."""

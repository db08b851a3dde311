"""The errors that managed state raises, which all have one root.

::

    MilepostError
    └── StateError
        ├── CoderError            a value cannot be encoded, or the coder never writes the bytes
        ├── InvalidUse            the call is wrong, and nothing was changed
        │   ├── UnknownFamily     the state store has no column family of this name
        │   ├── NotDeterministic  a key needs a coder that always encodes equal values equally
        │   └── StoreEnded        the state store was committed, aborted or released before the call
        ├── VersionNotFound       no file leads to this version: it was never committed, or is no longer kept
        ├── Diverged              more than one commit has this version; ``ids`` has theirs
        ├── EpochTaken            another coordinator completed this snapshot of a pipeline; restore, and go on from it
        ├── PipelineStopped       a part of a pipeline is dead, or the pipeline did not finish; make a new one
        ├── Incompatible          the registered states, or the number of tasks, do not match the stored state
        ├── StateDamaged          a file does not have the bytes that were written; ``path`` names it
        ├── EngineFailed          the engine of an open state store failed, such as RocksDB on a full disk; reopen it
        ├── FilesError            the storage of the files refused an operation; certainly nothing was changed
        │   ├── FileMissing       there is no file of this name
        │   └── FilesFenced       another driver leads the job by now: stop, and do not try again
        └── WriteUnknown          a file was being created, and it is unknown whether it exists
            └── CommitUnknown     the outcome of a commit is unknown; a repeated commit writes the same file

A write ends in one of three ways: it returns, it raises an error below `FilesError`, or `WriteUnknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from milepost.errors import MilepostError


class StateError(MilepostError):
    """The root of all errors of managed state."""


class CoderError(StateError, ValueError):
    """The coder cannot encode a value, or the bytes to decode are not bytes that the coder writes."""


class InvalidUse(StateError):
    """The call is wrong, whatever the state store contains; nothing was changed."""


class UnknownFamily(InvalidUse):
    """The state store has no column family of this name."""


class NotDeterministic(InvalidUse):
    """The coder for a key may encode equal values differently, so a stored key might not be found again. Nothing was
    changed.
    """


class StoreEnded(InvalidUse):
    """The state store was committed, aborted or released before this call."""


class VersionNotFound(StateError):
    """The files of the state store do not contain this version: it was never committed, or is no longer kept."""


class Diverged(StateError):
    """More than one commit of a state store has this version, and the files do not say which one counts. ``version`` is
    that version, and ``ids`` has the id of each commit. A caller that knows which commit was published passes its id.
    """

    def __init__(self, message: str, version: int, ids: Sequence[str]) -> None:
        super().__init__(message)
        self.version = version
        self.ids = tuple(ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.version, self.ids)


class EpochTaken(StateError):
    """Another coordinator of a `milepost.state.dialects.barriers` pipeline completed this snapshot number (the
    pipeline's epoch) first. Restore the pipeline to continue from that snapshot.
    """


class PipelineStopped(StateError):
    """A task or the coordinator of a `milepost.state.dialects.barriers` pipeline is dead, or the pipeline did not
    finish. A new pipeline restores the whole state.
    """


class Incompatible(StateError):
    """The states that a task registers, or the number of tasks, do not match the stored state; nothing was changed."""


class StateDamaged(StateError):
    """A file of a state store does not have the bytes that were written, so none of them is returned. ``path`` is its
    path.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.reason)


class EngineFailed(StateError):
    """The engine that holds an open state store failed, such as RocksDB on a full disk. The files of the store are
    unchanged.
    """


class FilesError(StateError):
    """The storage of a state store's files failed to carry out an operation; it is certain that nothing was changed."""


class FileMissing(FilesError):
    """The storage has no file of this name."""


class FilesFenced(FilesError):
    """The job's epoch under which the files are written is over, since another driver leads the job. A retry cannot
    help, so stop.
    """


class WriteUnknown(StateError):
    """The storage did not confirm the creation of a file: the file may exist, or may come to exist later."""


class CommitUnknown(WriteUnknown):
    """It is unknown whether a commit of a state store is stored. The store may be committed again: that writes the same
    file under the same name, so the changes cannot be committed twice.
    """

"""What must always hold, each by a name of its own, and the error for its breach."""

from __future__ import annotations

from enum import Enum


class Invariant(str, Enum):
    """The invariants."""

    BLOB_THERE = "BlobThere: a pointer that can be read points to a blob that can be read whole"
    DEPOSED = "deposed: no write of a deposed leader is committed"
    REVISION_RISES = "RevisionRises: the revision only rises"
    STALE_EPOCH = "staleEpoch: no write is accepted under another epoch than the current one"
    EPOCH_RISES = "epochNotRising: epochs strictly rise, and one session holds the current one"
    UNDER_LOCK = "removedUnderLock: nothing is removed while another living session holds a lock on it"
    LOST_UPDATE = "lostUpdate: a replacement is committed on the version that it names"
    VERSION_REUSED = "versionReused: a version is used once"
    DEAD_SESSION = "deadSession: only a living session changes anything"
    ONCE = "Once: one key is applied once"
    TRUTHFUL_NO = "TruthfulNo: what was told as not applied never is"
    TRUTHFUL_YES = "TruthfulYes: what was acknowledged has been committed"
    FIRST_ANSWER = "FirstAnswer: a retry gets the first answer again"
    STALE_READ = "staleRead: an answer reflects all that was acknowledged before it was asked for"
    DIRTY_READ = "NoDirtyRead: an answer tells what was committed at its revision, and nothing else"
    BELIEVED = "Believed: a session that its client surely believes alive is"
    FULL_TTL = "FullTtl: after a fail-over every session, and every upload, gets its full time again"
    UPLOAD_ONCE = "UploadOnce: one upload becomes one handle at most, and none after its end"
    UPLOAD_KEPT = "UploadKept: the bytes of a pending upload are discarded by nobody"
    FILE_KEPT = "FileKept: a file is whole, and there until somebody under the current epoch ends it"
    RENAMED_ONCE = "RenamedOnce: a rename happens once, and takes the place of nothing that was to stay"
    CUT_SHOWS = "CutShows: a cut shows what was there at its revision, for as long as it is kept"
    AS_MODELLED = "AsModelled: what is committed is what the contract says of the requests in it"
    NOTHING_DROPPED = "NothingDropped: a record goes only when nothing in it is needed any more"
    BEGUN_ONCE = "BegunOnce: a job that a cell knows begins in no other"
    IN_ONE_CELL = "InOneCell: a job is in one cell, or a tombstone names the arrival that will be the job"
    MOVED_WHOLE = "MovedWhole: a job has in the new cell what it had in the old one at its tombstone"
    NONE_BEHIND = "NoneBehind: nothing of a job is committed in the cell that it has left"
    RECOVERS = "Recovers: once faults end, everything goes on and nothing is left behind"
    NO_FAULT = "NoFault: no unexpected error"

    @property
    def short(self) -> str:
        """The name alone."""
        return self.value.partition(":")[0]


class Violation(Exception):
    """An invariant was broken."""

    def __init__(self, invariant: Invariant, detail: str) -> None:
        super().__init__(invariant, detail)  # what it is made again from, on its way out of another process
        self.invariant = invariant
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.invariant.value} -- {self.detail}"

"""The operations on handles, stores, epochs and sessions."""

from __future__ import annotations

from dataclasses import replace

from milepost.operations.operation import (
    COMMITS,
    FIELDS,
    JOB,
    JOBS,
    KEYED,
    PAGED,
    READS_BYTES,
    RECEIVES_BYTES,
    STORE,
    RestOperation,
    Right,
    change,
    operation,
    read,
)
from milepost.wire import Code, Header

_HANDLES = f"{STORE}/handles"
_HANDLE = _HANDLES + "/{name}"
_SESSION = "/v1/sessions/{session}"

# Handles: the operations of Flink's StateHandleStore, reads without a lock, and the announcement of an upload.

ADD_AND_LOCK = change(
    "addAndLock",
    "POST",
    _HANDLE,
    {*RECEIVES_BYTES, Code.ALREADY_EXISTS},
    fenced=True,
    success=(201,),
    answer="Handle",
    takes=(Header.CONTENT_DIGEST, Header.LABELS),
    gives=(Header.ETAG,),
)
REPLACE = change(
    "replace",
    "PUT",
    _HANDLE,
    {*RECEIVES_BYTES, Code.NOT_EXIST, Code.NOT_LOCKED, Code.VERSION_MISMATCH, Code.PRECONDITION_REQUIRED},
    fenced=True,
    answer="Handle",
    takes=(Header.CONTENT_DIGEST, Header.LABELS, Header.ACT, Header.IF_MATCH),
    gives=(Header.ETAG,),
)
EXISTS = operation("exists", "HEAD", _HANDLE, Right.READ, {Code.NOT_EXIST, Code.CORRUPT}, gives=(Header.ETAG,))
GET_HANDLE = read(
    "getHandle",
    _HANDLE,
    {Code.NOT_EXIST, Code.CORRUPT},
    summary="The record, without a lock",
    answer="Handle",
    gives=(Header.ETAG,),
)
READ_STATE = operation(
    "readState",
    "GET",
    f"{_HANDLE}/state",
    Right.READ,
    {*READS_BYTES},
    summary="The state's bytes",
    success=(200, 206),
    takes=(Header.IF_MATCH, "Range"),
    gives=(Header.ETAG, Header.REPR_DIGEST, "Accept-Ranges"),
    query={"redirect": "`true`: 307 to a signed URL where the blobs can sign."},
)
GET_AND_LOCK = change("getAndLock", "POST", f"{_HANDLE}/lock", {Code.NOT_EXIST}, answer="Handle", gives=(Header.ETAG,))
RELEASE = change("release", "DELETE", f"{_HANDLE}/lock", success=(204,))
RELEASE_AND_TRY_REMOVE = change(
    "releaseAndTryRemove",
    "DELETE",
    _HANDLE,
    {Code.VERSION_MISMATCH, Code.DISCARD_FAILED},
    fenced=True,
    answer="Removal",
    takes=(Header.IF_MATCH,),
)
GET_ALL_HANDLES = read(
    "getAllHandles", _HANDLES, {Code.INVALID_REQUEST, Code.CORRUPT}, answer="HandlePage", query=PAGED
)
CLEAR_ENTRIES = change("clearEntries", "DELETE", _HANDLES, fenced=True, audit_name="clear", answer="Cleared")
GET_ALL_AND_LOCK = change("getAllAndLock", "POST", f"{STORE}/locks", answer="LockedHandles")
RELEASE_ALL = change("releaseAll", "DELETE", f"{STORE}/locks", success=(204,))
ANNOUNCE_UPLOAD = change(
    "announceUpload",
    "POST",
    f"{STORE}/uploads",
    {Code.UPLOAD_UNKNOWN, Code.UNSUPPORTED_MEDIA_TYPE, Code.NOT_SUPPORTED},
    summary="Announce an upload",
    success=(201,),
    answer="Upload",
)

# Stores, and the events in a store.

LIST_STORES = operation(
    "listStores",
    "GET",
    "/v1/stores",
    Right.TOKEN,
    {Code.NOT_ACCEPTABLE, Code.INVALID_REQUEST},
    summary="The stores that exist",
    answer="StorePage",
    query=PAGED,
)
WATCH_STORE = operation(
    "watchStore",
    "GET",
    f"{STORE}/events",
    Right.READ,
    {Code.COMPACTED, Code.NOT_ACCEPTABLE, Code.INVALID_REQUEST, Code.CORRUPT, Code.TOO_MANY_REQUESTS},
    summary="Watch a store",
    takes=("Last-Event-ID",),
    query={"after": "Begin after this revision, or after the event with this id."},
)

# Epochs, the fencing tokens of drivers.

CAMPAIGN = change(
    "campaign",
    "POST",
    f"{STORE}/epoch",
    {Code.UNSUPPORTED_MEDIA_TYPE, Code.HELD},
    summary="Campaign for the epoch",
    answer="Epoch",
)
GET_EPOCH = read("getEpoch", f"{STORE}/epoch", {Code.CORRUPT}, summary="The current epoch", answer="CurrentEpoch")
GET_JOB = read("getJob", JOB, {Code.NOT_EXIST, Code.CORRUPT}, summary="A job as a whole", answer="JobInfo")
LIST_JOBS = operation(
    "listJobs",
    "GET",
    JOBS,
    Right.TOKEN,
    {Code.NOT_ACCEPTABLE, Code.INVALID_REQUEST},
    summary="The jobs",
    answer="JobPage",
    query={"dropped": "`true`: the jobs that were dropped, in place of the others.", **PAGED},
)
DROP_JOB = change("dropJob", "DELETE", JOB, fenced=True, audit_name="drop", summary="Drop a job", answer="DroppedJob")
GET_PLACEMENT = read(
    "getPlacement", f"{JOB}/placement", {Code.CORRUPT}, summary="The cell of a job", answer="Placement"
)
PLACE_JOB = operation(
    "placeJob",
    "PUT",
    f"{JOB}/placement",
    Right.WRITE,
    {*COMMITS, Code.NOT_ACCEPTABLE, Code.UNSUPPORTED_MEDIA_TYPE, Code.CELLS_DIFFER},
    audit_name="place",
    summary="Begin a job in this cell",
    answer="Placement",
    takes=KEYED,
    gives=(Header.REPLAYED,),
)
BEGIN_DEPARTURE = change(
    "beginDeparture",
    "POST",
    f"{JOB}/departure",
    {Code.UNSUPPORTED_MEDIA_TYPE},
    fenced=True,
    audit_name="depart",
    summary="Freeze a job that is moved to another cell",
    answer="Placement",
)
END_DEPARTURE = change(
    "endDeparture",
    "DELETE",
    f"{JOB}/departure",
    fenced=True,
    audit_name="move-away",
    summary="Set the tombstone of a job that is in another cell now",
    answer="Placement",
    query={"move": "The id of the move."},
    needs=("move",),
)
BEGIN_ARRIVAL = replace(
    change(
        "beginArrival",
        "POST",
        f"{JOB}/arrival",
        {Code.UNSUPPORTED_MEDIA_TYPE, Code.ALREADY_EXISTS, Code.FENCED},
        audit_name="arrive",
        summary="Begin the copy of a job from another cell",
        answer="Placement",
    ),
    right=Right.ADMIN,  # it raises the revision of the whole cell
)
FINISH_ARRIVAL = operation(
    "finishArrival",
    "PUT",
    f"{JOB}/arrival",
    Right.WRITE,
    {*COMMITS, Code.NOT_EXIST, Code.FENCED, Code.UNSUPPORTED_MEDIA_TYPE},
    audit_name="move-here",
    summary="Let a job be in this cell",
    answer="Placement",
    takes=KEYED,
    gives=(Header.REPLAYED,),
)
LIST_RECORDS = read(
    "listRecords",
    f"{JOB}/records",
    {Code.INVALID_REQUEST, Code.CORRUPT, Code.FENCED, Code.STORAGE_UNAVAILABLE, Code.BLOB_MISSING},
    summary="The records of a job that is being moved",
    answer="MovedRecords",
    query={"token": PAGED["token"]},
)
WRITE_RECORDS = change(
    "writeRecords",
    "POST",
    f"{JOB}/records",
    {Code.UNSUPPORTED_MEDIA_TYPE, Code.FENCED, Code.BLOB_MISSING},
    summary="Write records of a job that is being moved here",
    answer="Placement",
)
READ_BLOB = operation(
    "readBlob",
    "GET",
    f"{JOB}/blob",
    Right.READ,
    {*READS_BYTES, Code.FENCED} - {Code.VERSION_MISMATCH, Code.RANGE_NOT_SATISFIABLE},
    summary="The bytes of a blob of a job that is being moved",
    query={
        "key": "The key of the blob.",
        "size": "Its size in bytes.",
        "digest": "Its SHA-256, in hexadecimal digits.",
    },
    needs=("key", "size", "digest"),
)
WRITE_BLOB = operation(
    "writeBlob",
    "PUT",
    f"{JOB}/blob",
    Right.WRITE,
    {*FIELDS, Code.DIGEST_MISMATCH, Code.FENCED, Code.STORAGE_UNAVAILABLE, Code.STORAGE_FULL, Code.TOO_MANY_REQUESTS},
    summary="Store a blob of a job that is being moved here",
    success=(201,),
    answer="MovedBlob",
    takes=(*KEYED, Header.CONTENT_DIGEST),
    query={"move": "The id of the move.", "file": "`true`: the blob has the bytes of a file."},
    needs=("move",),
)
REPORT_ROWS = change(
    "reportRows",
    "POST",
    f"{JOB}/rows",
    {Code.UNSUPPORTED_MEDIA_TYPE},
    fenced=True,
    summary="Report the rows of batches",
    answer="RowsEntered",
)
GET_JOB_HISTORY = read(
    "getJobHistory",
    f"{JOB}/history",
    {Code.NOT_EXIST, Code.INVALID_REQUEST},
    summary="The history of a job",
    answer="JobHistory",
    query=PAGED,
)
RESTORE_JOB_HISTORY = change(
    "restoreJobHistory",
    "POST",
    f"{JOB}/history",
    {Code.UNSUPPORTED_MEDIA_TYPE, Code.ALREADY_EXISTS, Code.HELD},
    audit_name="restore-history",
    summary="Restore the history of a job",
    answer="HistoryRestored",
)
WATCH_JOB = operation(
    "watchJob",
    "GET",
    f"{JOB}/events",
    Right.READ,
    {Code.COMPACTED, Code.NOT_EXIST, Code.NOT_ACCEPTABLE, Code.INVALID_REQUEST, Code.TOO_MANY_REQUESTS},
    summary="Watch a job",
    takes=("Last-Event-ID",),
    query={"after": "Begin after this revision, or after the entry of the history with this id."},
)
_WISHES = {*COMMITS, Code.NOT_EXIST, Code.UNSUPPORTED_MEDIA_TYPE}
STOP_JOB = operation(
    "stopJob",
    "POST",
    f"{JOB}/stop",
    Right.WRITE,
    {*_WISHES, Code.ALREADY_EXISTS},
    audit_name="stop",
    summary="Stop a job",
    answer="JobState",
    takes=KEYED,
    gives=(Header.REPLAYED,),
)
HAND_OVER_JOB = operation(
    "handOverJob",
    "POST",
    f"{JOB}/hand-over",
    Right.WRITE,
    {*_WISHES, Code.FENCED},
    audit_name="hand-over",
    summary="Hand a job over to a standby",
    answer="JobState",
    takes=KEYED,
    gives=(Header.REPLAYED,),
)
START_JOB = operation(
    "startJob",
    "POST",
    f"{JOB}/start",
    Right.WRITE,
    _WISHES,
    audit_name="start",
    summary="Start a stopped job",
    answer="JobState",
    takes=KEYED,
    gives=(Header.REPLAYED,),
)


def _act(id: str, name: str, summary: str) -> RestOperation:
    """Return the operation of an act on a job that a process of the leader performs, as the SDK would."""
    return operation(
        id,
        "POST",
        f"{JOB}/{name}",
        Right.WRITE,
        {*COMMITS, *_OF_ACTS},
        audit_name=name,
        summary=summary,
        answer="ActOnJob",
        takes=KEYED,
        gives=(Header.REPLAYED,),
    )


_OF_ACTS = {
    Code.UNSUPPORTED_MEDIA_TYPE,
    Code.SESSION_EXPIRED,
    Code.NOT_EXIST,
    Code.ALREADY_EXISTS,
    Code.NOT_EMPTY,
    Code.FENCED,
    Code.CELLS_DIFFER,
    Code.UNSAFE,
    Code.BLOB_MISSING,
    Code.VERSION_MISMATCH,
    Code.NOT_SUPPORTED,
}
RESTORE_JOB = _act("restoreJob", "restore", "Restore a job to a snapshot")
CLONE_JOB = _act("cloneJob", "clone", "Begin a job as a clone of another one")
DROP_JOB_AS_ACT = _act("dropJobUnderNewEpoch", "drop", "Drop a job that no driver leads")
RESCALE_JOB = _act("rescaleJob", "rescale", "Say what a rescale of a job would do")
RESIGN = change("resign", "DELETE", f"{STORE}/epoch", {Code.FENCED}, summary="Resign", success=(204,))
GET_CREDENTIALS = operation(
    "getCredentials",
    "POST",
    f"{STORE}/epoch/credentials",
    Right.WRITE,
    {
        *FIELDS,
        Code.SESSION_REQUIRED,
        Code.SESSION_UNKNOWN,
        Code.FENCED,
        Code.SESSION_EXPIRED,
        Code.CORRUPT,
        Code.NOT_SUPPORTED,
        Code.STORAGE_UNAVAILABLE,
    },
    audit_name="issue-credential",
    summary="The credentials of the job's files",
    answer="Credentials",
    takes=(Header.SESSION,),
)

# Sessions. Beside the right of an operation, the service checks that the session belongs to the client.

OPEN_SESSION = operation(
    "openSession",
    "POST",
    "/v1/sessions",
    Right.WRITE_ANY,
    {*COMMITS, Code.NOT_ACCEPTABLE, Code.UNSUPPORTED_MEDIA_TYPE, Code.SESSION_EXPIRED, Code.INVALID_NAME},
    summary="Open or renew a session",
    success=(201, 200),
    answer="Session",
    takes=KEYED,
    gives=(Header.REPLAYED,),
)
LIST_SESSIONS = operation(
    "listSessions",
    "GET",
    "/v1/sessions",
    Right.READ_ALL,
    {Code.NOT_ACCEPTABLE, Code.INVALID_REQUEST},
    summary="The sessions that live",
    answer="SessionPage",
    query=PAGED,
)
GET_SESSION = operation(
    "getSession",
    "GET",
    _SESSION,
    Right.TOKEN,
    {Code.SESSION_UNKNOWN, Code.NOT_ACCEPTABLE, Code.SESSION_EXPIRED, Code.CORRUPT},
    summary="A session and its locks",
    answer="SessionInfo",
)
KEEP_SESSION_ALIVE = operation(
    "keepSessionAlive",
    "POST",
    f"{_SESSION}/keepalive",
    Right.WRITE_ANY,
    {*FIELDS, Code.SESSION_UNKNOWN, Code.SESSION_EXPIRED, Code.CORRUPT, Code.STORAGE_UNAVAILABLE},
    summary="Renew a lease",
    answer="Lease",
)
END_SESSION = operation(
    "endSession",
    "DELETE",
    _SESSION,
    Right.WRITE_ANY,
    {*COMMITS, Code.SESSION_UNKNOWN, Code.SESSION_EXPIRED},
    summary="End a session",
    success=(204,),
    takes=KEYED,
    gives=(Header.REPLAYED,),
)

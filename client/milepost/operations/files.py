"""The operations on the files of jobs: snapshots, files over REST and over Hadoop's WebHDFS, and managed state."""

from __future__ import annotations

from milepost.operations.operation import (
    COMMITS,
    FIELDS,
    FILE_WRITING,
    PAGED,
    READS_BYTES,
    STORE,
    Right,
    change,
    operation,
    read,
)
from milepost.wire import Code, Header

_TREE = f"{STORE}/tree"
_FILES = f"{STORE}/files"
_FILE = _FILES + "/{path}"
_WEBHDFS = "/webhdfs/v1/{path}"

# Snapshots and savepoints of a job's files.

GET_SNAPSHOTS = read(
    "getSnapshots", _TREE, {Code.CORRUPT}, summary="The snapshots and savepoints of a tree", answer="KeptSnapshots"
)
VERIFY_TREE = operation(
    "verifyTree",
    "POST",
    f"{_TREE}/verification",
    Right.READ,
    {*FIELDS, Code.UNSUPPORTED_MEDIA_TYPE, Code.CORRUPT, Code.STORAGE_UNAVAILABLE},
    summary="Verify the files of a tree",
    answer="Verification",
)
ROLL_BACK = change(
    "rollBack",
    "POST",
    f"{_TREE}/rollback",
    {Code.NOT_EXIST, Code.UNSUPPORTED_MEDIA_TYPE, Code.NOT_LOCKED, Code.VERSION_MISMATCH},
    fenced=True,
    audit_name="rollback",
    summary="Go back to a snapshot",
    answer="RolledBack",
)
CLONE_TREE = change(
    "cloneTree",
    "POST",
    f"{_TREE}/clone",
    {Code.NOT_EXIST, Code.ALREADY_EXISTS, Code.UNSUPPORTED_MEDIA_TYPE, Code.NOT_EMPTY, Code.BLOB_MISSING},
    fenced=True,
    audit_name="clone",
    summary="Clone a snapshot of another job",
    success=(201,),
    answer="Clone",
)
MAKE_SAVEPOINT = change(
    "makeSavepoint",
    "PUT",
    _TREE + "/savepoints/{savepoint}",
    {Code.NOT_EXIST, Code.UNSUPPORTED_MEDIA_TYPE, Code.ALREADY_EXISTS},
    audit_name="savepoint",
    summary="Make a savepoint",
    answer="SnapshotRevision",
)
DROP_SAVEPOINT = change(
    "dropSavepoint",
    "DELETE",
    _TREE + "/savepoints/{savepoint}",
    {Code.NOT_EXIST},
    audit_name="drop-savepoint",
    summary="Drop a savepoint",
    success=(204,),
)

# Files of jobs.

LIST_FILES = read(
    "listFiles",
    _FILES,
    {Code.NOT_EXIST, Code.NOT_DIRECTORY, Code.INVALID_REQUEST, Code.CORRUPT, Code.STORAGE_UNAVAILABLE},
    right=Right.READ_OF_JOB,
    summary="List a directory",
    answer="FilePage",
    query={"under": "The directory; the root if it is absent.", **PAGED},
)
LOOK_AT_FILE = operation(
    "lookAtFile",
    "HEAD",
    _FILE,
    Right.READ_OF_JOB,
    {
        Code.NOT_EXIST,
        Code.NOT_ACCEPTABLE,
        Code.VERSION_MISMATCH,
        Code.INVALID_REQUEST,
        Code.CORRUPT,
        Code.STORAGE_UNAVAILABLE,
    },
    summary="Look at a file",
    takes=(Header.IF_MATCH,),
    gives=(Header.ETAG, Header.REPR_DIGEST, Header.LAST_MODIFIED),
)
READ_FILE = operation(
    "readFile",
    "GET",
    _FILE,
    Right.READ_OF_JOB,
    {*READS_BYTES},
    summary="Read a file",
    success=(200, 206),
    takes=(Header.IF_MATCH, "Range"),
    gives=(Header.ETAG, Header.REPR_DIGEST, Header.LAST_MODIFIED, "Accept-Ranges"),
)
WRITE_FILE = operation(
    "writeFile",
    "PUT",
    _FILE,
    Right.WRITE_OF_JOB,
    {
        *COMMITS,
        Code.ALREADY_EXISTS,
        Code.NOT_DIRECTORY,
        Code.FENCED,
        Code.CELLS_DIFFER,
        Code.BLOB_MISSING,
        Code.DIGEST_MISMATCH,
    },
    summary="Write a file",
    success=(201, 200),
    answer="WrittenFile",
    takes=(*FILE_WRITING, Header.CONTENT_DIGEST, Header.IF_NONE_MATCH),
    gives=(Header.ETAG, Header.REPR_DIGEST, Header.REPLAYED),
    query={"directory": "`true`: make a directory, with those above it. There is no body then."},
)
DELETE_FILE = operation(
    "deleteFile",
    "DELETE",
    _FILE,
    Right.WRITE_OF_JOB,
    {*COMMITS, Code.NOT_EMPTY, Code.FENCED},
    summary="Delete a file",
    success=(204,),
    takes=FILE_WRITING,
    gives=(Header.REPLAYED,),
    query={"recursive": "`true`: delete a directory with all that is in it."},
)

# Files of jobs over Hadoop's WebHDFS. One path serves many operations of WebHDFS.

READ_FILES = operation(
    "readFiles", "GET", _WEBHDFS, Right.READ_OF_JOB, summary="Look at files, and read them", answer="FilesAnswer"
)
WRITE_FILES = operation(
    "writeFiles", "PUT", _WEBHDFS, Right.WRITE_OF_JOB, summary="Make and rename files", answer="FilesAnswer"
)
CHANGE_FILES = operation("changeFiles", "POST", _WEBHDFS, Right.WRITE_OF_JOB, described=False)
DELETE_FILES = operation(
    "deleteFiles", "DELETE", _WEBHDFS, Right.WRITE_OF_JOB, summary="Delete files", answer="FilesAnswer"
)
GET_TOKEN = operation(
    "getToken", "POST", "/oauth2/token", Right.NOTHING, summary="A token for a job's files", answer="Token"
)

# Managed state, which is stored among the files of a job.

LOOK_UP_STATE = read(
    "lookUpState",
    STORE + "/state/{state}",
    {
        Code.NOT_EXIST,
        Code.BLOB_MISSING,
        Code.INVALID_REQUEST,
        Code.TOO_MANY_REQUESTS,
        Code.CORRUPT,
        Code.NOT_SUPPORTED,
        Code.STORAGE_UNAVAILABLE,
    },
    summary="Look up a key",
    answer="StateOfKey",
    query={
        "key": "The key: a JSON array of its columns.",
        "variable": "The state variable; all of them if it is absent.",
        "version": "The snapshot, which has to be one that is kept; the newest if it is absent.",
        **PAGED,
    },
    needs=("key",),
)

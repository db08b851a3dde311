"""Managed state, and the executors that have it loaded."""

from __future__ import annotations

from milepost.operations.operation import FIELDS, PAGED, STORE, Right, operation, read
from milepost.wire import Code, Header

_INSTANCES = f"{STORE}/instances"

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
REPORT_INSTANCES = operation(
    "reportInstances",
    "POST",
    _INSTANCES,
    Right.WRITE_OF_JOB,
    {*FIELDS, Code.UNSUPPORTED_MEDIA_TYPE, Code.FENCED, Code.TOO_MANY_REQUESTS, Code.CORRUPT},
    summary="Report loaded state stores",
    answer="InstanceReport",
    takes=(Header.EPOCH,),
)
VERIFY_INSTANCES = operation(
    "verifyInstances",
    "POST",
    f"{_INSTANCES}/verification",
    Right.WRITE_OF_JOB,
    {*FIELDS, Code.UNSUPPORTED_MEDIA_TYPE, Code.FENCED, Code.TOO_MANY_REQUESTS, Code.CORRUPT},
    summary="Verify loaded state stores",
    answer="VerifiedInstances",
    takes=(Header.EPOCH,),
)
LOCATE_INSTANCES = operation(
    "locateInstances",
    "POST",
    f"{_INSTANCES}/locations",
    Right.READ_OF_JOB,
    {*FIELDS, Code.UNSUPPORTED_MEDIA_TYPE, Code.CORRUPT},
    summary="Where state stores are loaded",
    answer="InstanceLocations",
)
NOTE_SNAPSHOTS = operation(
    "noteSnapshots",
    "POST",
    f"{_INSTANCES}/snapshots",
    Right.WRITE_OF_JOB,
    {*FIELDS, Code.UNSUPPORTED_MEDIA_TYPE, Code.FENCED, Code.TOO_MANY_REQUESTS, Code.CORRUPT},
    summary="Tell of snapshots",
    success=(204,),
    takes=(Header.EPOCH,),
)
DEACTIVATE_INSTANCES = operation(
    "deactivateInstances",
    "POST",
    f"{_INSTANCES}/deactivation",
    Right.WRITE_OF_JOB,
    {*FIELDS, Code.UNSUPPORTED_MEDIA_TYPE, Code.FENCED, Code.TOO_MANY_REQUESTS, Code.CORRUPT},
    summary="Deactivate state stores",
    answer="DeactivatedInstances",
    takes=(Header.EPOCH,),
)
LIST_INSTANCES = read(
    "listInstances",
    _INSTANCES,
    {Code.INVALID_REQUEST, Code.CORRUPT},
    right=Right.READ_OF_JOB,
    summary="All loaded state stores",
    answer="InstancePage",
    query=PAGED,
)
GET_LAGGING_INSTANCES = read(
    "getLaggingInstances",
    f"{_INSTANCES}/lagging",
    {Code.INVALID_REQUEST, Code.CORRUPT},
    right=Right.READ_OF_JOB,
    summary="State stores whose snapshots lag",
    answer="LaggingInstances",
    query={
        "run": "The run of a query whose state stores are meant.",
        "version": "The newest version of these state stores.",
        "versions": "A state store lags if its newest snapshot is behind by more versions than that.",
        "seconds": "A state store lags if its newest snapshot is that old at least; 0 if left out.",
        "limit": "The largest number of entries on a page.",
    },
    needs=("run", "version", "versions"),
)

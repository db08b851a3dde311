"""The parts of the OpenAPI description from which clients are generated: the schemas of answers, and the patterns of
names.

The schemas use only keywords of OpenAPI 3.0, since not every generator understands newer ones.
"""

from __future__ import annotations

from typing import Any, Final

from milepost.wire import CELL, NAME

Schema = dict[str, Any]

OPENAPI_VERSION: Final = "3.0.3"
SECURITY_SCHEMES: Final[Schema] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "Where the deployment has tokens."}
}
SECURED: Final[list[Schema]] = [{"bearer": []}, {}]
"""The security of a call: a bearer token, or nothing if the deployment has no tokens."""

NAME_SCHEMA: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "pattern": "^" + NAME.pattern.removesuffix(r"\Z") + "$",
}
TAG_PATTERN: Final = r'^"[\x21\x23-\x7e]{1,128}"$'

_TEXT: Schema = {"type": "string"}
_CELL: Schema = {"type": "string", "pattern": "^" + CELL.pattern.removesuffix(r"\Z") + "$"}
_COUNT: Schema = {"type": "integer", "format": "int64", "minimum": 0}
_PUBLISHED: Schema = {"type": "integer", "format": "int64", "minimum": -1}
_SECONDS: Schema = {"type": "number", "format": "double", "minimum": 0}
_TIME: Schema = {"type": "string", "format": "date-time"}
_FLAG: Schema = {"type": "boolean"}
_ROW: Schema = {"type": "object"}
"""A value of managed state: a struct, whose fields depend on the job."""


def _nullable(schema: Schema) -> Schema:
    return {**schema, "nullable": True}


def _each(name: str) -> Schema:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


def _object(optional: tuple[str, ...] = (), /, **members: Schema) -> Schema:
    """Return the schema of a JSON object with these members, to which a later version may add others. The members named
    in ``optional`` may be absent.
    """
    required = [name for name in members if name not in optional]
    return {"type": "object", "properties": members, "required": required}


_SNAPSHOT: dict[str, Schema] = {"directory": _TEXT, "batch": _COUNT, "revision": _COUNT}
_COMMIT: dict[str, Schema] = {"taken": _nullable(_TIME), "epoch": _nullable(_COUNT)}
_PROCESS: Schema = _nullable(
    _object(host=_nullable(_TEXT), pid=_nullable(_COUNT), application=_nullable(_TEXT), ui=_nullable(_TEXT))
)
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_NAMES: Schema = {"type": "array", "items": NAME_SCHEMA}

_EPOCH: dict[str, Schema] = {
    "epoch": _COUNT,
    "session": _nullable(NAME_SCHEMA),
    "holder": _nullable(_TEXT),
    "since": _nullable(_TIME),
}
_WISH: Schema = _nullable(
    _object(
        ("by", "who", "reason", "savepoint"),
        kind={"type": "string", "enum": ["stop", "hand-over"]},
        epoch=_COUNT,
        at=_TIME,
        by=_nullable(_TEXT),
        who=_nullable(_TEXT),
        reason=_nullable(_TEXT),
        savepoint=_nullable(NAME_SCHEMA),
    )
)


def _job_state(*further: str) -> Schema:
    return {"type": "string", "enum": ["led", "stopping", "stopped", "lost", "resigned", "new", "dropped", *further]}


SCHEMAS: Final[dict[str, Schema]] = {
    "Handle": _object(
        name=NAME_SCHEMA,
        version=_TEXT,
        size=_COUNT,
        sha256={"type": "string", "pattern": "^[0-9a-f]{64}$"},
        created=_TIME,
        updated=_TIME,
        labels={"type": "object", "additionalProperties": _TEXT},
        locks=_NAMES,
        epoch=_nullable(_COUNT),
        removing=_FLAG,
    ),
    "CorruptHandle": _object(name=_TEXT, reason=_TEXT),
    "HandlePage": _object(handles=_each("Handle"), corrupt=_each("CorruptHandle"), next=_nullable(_TEXT)),
    "LockedHandles": _object(handles=_each("Handle"), corrupt=_each("CorruptHandle")),
    "Removal": _object(("locks",), removed=_FLAG, locks=_NAMES),
    "Cleared": _object(cleared=_COUNT),
    "Epoch": _object(**_EPOCH),
    "CurrentEpoch": _object(**_EPOCH, wish=_WISH),
    "JobState": _object(("wish",), job=NAME_SCHEMA, state=_job_state(), **_EPOCH, wish=_WISH),
    "Credentials": _object(epoch=_COUNT, client_id=_TEXT, client_secret=_TEXT, token_path=_TEXT),
    "Token": _object(access_token=_TEXT, token_type=_TEXT, expires_in=_COUNT),
    "TokenRefused": _object(error=_TEXT),
    "FileStatus": _object(
        accessTime=_COUNT,
        blockSize=_COUNT,
        childrenNum=_COUNT,
        fileId=_COUNT,
        group=_TEXT,
        length=_COUNT,
        modificationTime=_COUNT,
        owner=_TEXT,
        pathSuffix=_TEXT,
        permission=_TEXT,
        replication=_COUNT,
        storagePolicy=_COUNT,
        type={"type": "string", "enum": ["FILE", "DIRECTORY"]},
    ),
    "FileList": _object(FileStatus=_each("FileStatus")),
    "FileStatuses": _object(FileStatuses={"$ref": "#/components/schemas/FileList"}),
    "FileBatch": _object(partialListing={"$ref": "#/components/schemas/FileStatuses"}, remainingEntries=_COUNT),
    "FileBlock": _object(
        cachedHosts=_TEXTS,
        corrupt=_FLAG,
        hosts=_TEXTS,
        length=_COUNT,
        names=_TEXTS,
        offset=_COUNT,
        storageIds=_TEXTS,
        storageTypes=_TEXTS,
        topologyPaths=_TEXTS,
    ),
    "FileBlocks": _object(BlockLocation=_each("FileBlock")),
    "FilesAnswer": _object(
        (
            "FileStatus",
            "FileStatuses",
            "DirectoryListing",
            "BlockLocations",
            "FsServerDefaults",
            "ContentSummary",
            "QuotaUsage",
            "FsStatus",
            "Path",
            "Location",
            "Token",
            "boolean",
        ),
        FileStatus={"$ref": "#/components/schemas/FileStatus"},
        FileStatuses={"$ref": "#/components/schemas/FileList"},
        DirectoryListing={"$ref": "#/components/schemas/FileBatch"},
        BlockLocations={"$ref": "#/components/schemas/FileBlocks"},
        FsServerDefaults={"type": "object"},
        ContentSummary={"type": "object"},
        QuotaUsage={"type": "object"},
        FsStatus=_object(capacity=_COUNT, remaining=_COUNT, used=_COUNT),
        Path=_TEXT,
        Location=_TEXT,
        Token={"type": "null"},
        boolean=_FLAG,
    ),
    "JavaException": _object(exception=_TEXT, javaClassName=_TEXT, message=_TEXT),
    "FilesRefused": _object(RemoteException={"$ref": "#/components/schemas/JavaException"}),
    "Standby": _object(
        session=NAME_SCHEMA,
        holder=_nullable(_TEXT),
        process=_PROCESS,
        since=_nullable(_TIME),
        expires_in=_SECONDS,
    ),
    "BegunBatch": _object(directory=_TEXT, batch=_COUNT, epoch=_nullable(_COUNT), since=_TIME),
    "JobInfo": _object(
        job=NAME_SCHEMA,
        state=_job_state(),
        **_EPOCH,
        wish=_WISH,
        process=_PROCESS,
        expires_in=_nullable(_SECONDS),
        standbys=_each("Standby"),
        standbyCount=_COUNT,
        snapshots=_each("Snapshot"),
        savepoints=_each("Savepoint"),
        passedOver=_each("Snapshot"),
        begun=_each("BegunBatch"),
        handles=_COUNT,
        damaged=_COUNT,
        now=_TIME,
    ),
    "JobSummary": _object(
        job=NAME_SCHEMA,
        state=_job_state("damaged"),
        epoch=_nullable(_COUNT),
        session=_nullable(NAME_SCHEMA),
        holder=_nullable(_TEXT),
        since=_nullable(_TIME),
        standbyCount=_COUNT,
        batch=_nullable(_object(**_SNAPSHOT, taken=_nullable(_TIME))),
        oldest=_nullable(_object(**_SNAPSHOT, taken=_nullable(_TIME))),
        damaged=_COUNT,
        wish=_WISH,
    ),
    "Placement": _object(
        ("other", "epoch", "seal"),
        job=NAME_SCHEMA,
        cell=_nullable(_CELL),
        cells={"type": "array", "items": _CELL},
        placement={"type": "string", "enum": ["here", "none", "moved", "arriving"]},
        other=_nullable(_CELL),
        epoch=_nullable(_COUNT),
        seal=_nullable(_TEXT),
    ),
    "MovedRecords": _object(
        job=NAME_SCHEMA,
        departing=_object(
            ("wish",), revision=_COUNT, sealed=_TEXT, granted=_COUNT, dropped=_COUNT, wish=_nullable(_ROW)
        ),
        records={"type": "array", "items": _object(kind=_TEXT, record=_ROW)},
        next=_nullable(_TEXT),
    ),
    "MovedBlob": _object(key=_TEXT),
    "RowsEntered": _object(entered=_COUNT),
    "HistoryRestored": _object(entered=_COUNT),
    "DroppedJob": _object(handles=_COUNT, snapshots=_COUNT),
    "ActOnJob": _object(
        (
            "source",
            "snapshot",
            "revision",
            "directory",
            "batch",
            "published",
            "published_before",
            "undo",
            "files",
            "bytes",
            "handles",
            "snapshots",
            "savepoints",
            "outputs",
            "partitions_before",
            "partitions",
        ),
        job=NAME_SCHEMA,
        done=_FLAG,
        epoch=_COUNT,
        holder=_nullable(_TEXT),
        becomes=_object(
            ("query", "source", "input", "state", "output", "sink"),
            query=_TEXT,
            source=_TEXT,
            input=_TEXT,
            state=_TEXT,
            output=_TEXT,
            sink=_TEXT,
        ),
        source=NAME_SCHEMA,
        snapshot=_TEXT,
        revision=_COUNT,
        directory=_TEXT,
        batch=_nullable(_COUNT),
        published=_PUBLISHED,
        published_before=_PUBLISHED,
        undo=_nullable(_TEXT),
        files=_nullable(_COUNT),
        bytes=_nullable(_COUNT),
        handles=_COUNT,
        snapshots=_COUNT,
        savepoints=_TEXTS,
        outputs=_nullable(_TEXTS),
        partitions_before=_COUNT,
        partitions=_COUNT,
    ),
    "JobPage": _object(jobs=_each("JobSummary"), next=_nullable(_TEXT), now=_TIME),
    "HistoryEntry": _object(
        (
            "epoch",
            "session",
            "holder",
            "process",
            "since",
            "how",
            "by",
            "batch",
            "directory",
            "replay",
            "snapshot",
            "previous",
            "previous_batch",
            "savepoint",
            "source",
            "files",
            "bytes",
            "reason",
            "begun_under",
            "input_rows",
            "partitions",
            "previous_partitions",
            "restored",
            "entries",
        ),
        kind=_TEXT,
        at=_TIME,
        revision=_COUNT,
        id=_TEXT,
        epoch=_COUNT,
        session=NAME_SCHEMA,
        holder=_TEXT,
        process=_object(("host", "pid", "application", "ui"), host=_TEXT, pid=_COUNT, application=_TEXT, ui=_TEXT),
        since=_TIME,
        how=_TEXT,
        by=_TEXT,
        batch=_COUNT,
        directory=_TEXT,
        replay=_FLAG,
        snapshot=_COUNT,
        previous=_COUNT,
        previous_batch=_COUNT,
        savepoint=NAME_SCHEMA,
        source=_TEXT,
        files=_COUNT,
        bytes=_COUNT,
        reason=_TEXT,
        begun_under=_COUNT,
        input_rows=_COUNT,
        partitions=_COUNT,
        previous_partitions=_COUNT,
        restored=_FLAG,
        entries=_COUNT,
    ),
    "CorruptPage": _object(name=_TEXT, reason=_TEXT),
    "JobHistory": _object(
        job=NAME_SCHEMA, entries=_each("HistoryEntry"), corrupt=_each("CorruptPage"), next=_nullable(_TEXT)
    ),
    "StoreSummary": _object(
        store=NAME_SCHEMA,
        handles=_COUNT,
        revision=_COUNT,
        epoch=_nullable(_COUNT),
        session=_nullable(NAME_SCHEMA),
        holder=_nullable(_TEXT),
        since=_nullable(_TIME),
        snapshot=_nullable(_object(**_SNAPSHOT)),
        damaged=_COUNT,
    ),
    "StorePage": _object(stores=_each("StoreSummary"), next=_nullable(_TEXT)),
    "Upload": _object(
        upload=_TEXT,
        method={"type": "string", "enum": ["PUT"]},
        url=_TEXT,
        headers={"type": "object", "additionalProperties": _TEXT},
        expires_in=_SECONDS,
    ),
    "Snapshot": _object(**_SNAPSHOT, **_COMMIT),
    "Savepoint": _object(name=NAME_SCHEMA, **_SNAPSHOT, **_COMMIT),
    "KeptSnapshots": _object(snapshots=_each("Snapshot"), savepoints=_each("Savepoint"), passedOver=_each("Snapshot")),
    "SnapshotRevision": _object(revision=_COUNT),
    "RolledBack": _object(("version",), revision=_COUNT, version=_TEXT),
    "VerifiedSnapshot": _object(**_SNAPSHOT, **_COMMIT, intact=_FLAG),
    "VerifiedSavepoint": _object(name=NAME_SCHEMA, **_SNAPSHOT, **_COMMIT, intact=_FLAG),
    "DamagedFile": _object(path=_TEXT, reason=_TEXT),
    "Verification": _object(
        files=_COUNT,
        bytes=_COUNT,
        intact=_FLAG,
        damaged=_each("DamagedFile"),
        damagedCount=_COUNT,
        snapshots=_each("VerifiedSnapshot"),
        savepoints=_each("VerifiedSavepoint"),
        passedOver=_each("VerifiedSnapshot"),
    ),
    "Clone": _object(("version",), files=_COUNT, bytes=_COUNT, version=_TEXT),
    "JobFile": _object(
        path=_TEXT,
        directory=_FLAG,
        size=_COUNT,
        sha256=_nullable(_TEXT),
        version=_TEXT,
        modified=_TIME,
        epoch=_nullable(_COUNT),
    ),
    "FilePage": _object(files=_each("JobFile"), next=_nullable(_TEXT), now=_TIME),
    "WrittenFile": _object(
        ("size", "sha256", "version", "directory"),
        path=_TEXT,
        size=_COUNT,
        sha256=_TEXT,
        version=_TEXT,
        directory=_FLAG,
    ),
    "StateValue": _object(("entry", "expires"), variable=_TEXT, entry=_ROW, value=_ROW, expires=_TIME),
    "StateOfKey": _object(state=NAME_SCHEMA, version=_COUNT, values=_each("StateValue"), next=_nullable(_TEXT)),
    "Lease": _object(session=NAME_SCHEMA, ttl=_SECONDS),
    "Session": _object(session=NAME_SCHEMA, ttl=_SECONDS, holder=_TEXT),
    "LockOfSession": _object(store=NAME_SCHEMA, name=NAME_SCHEMA),
    "SessionInfo": _object(
        session=NAME_SCHEMA, ttl=_SECONDS, holder=_TEXT, expires_in=_SECONDS, locks=_each("LockOfSession")
    ),
    "EpochOfSession": _object(store=NAME_SCHEMA, epoch=_COUNT),
    "SessionSummary": _object(
        session=NAME_SCHEMA,
        ttl=_SECONDS,
        holder=_TEXT,
        expires_in=_SECONDS,
        locks=_COUNT,
        locked_stores=_COUNT,
        epochs=_each("EpochOfSession"),
        more_epochs=_FLAG,
    ),
    "CorruptSession": _object(name=NAME_SCHEMA, reason=_TEXT),
    "SessionPage": _object(sessions=_each("SessionSummary"), corrupt=_each("CorruptSession"), next=_nullable(_TEXT)),
    "Status": _object(
        replica=_TEXT,
        role={"type": "string", "enum": ["leader", "follower"]},
        leader=_nullable(_TEXT),
        term=_COUNT,
        lease_remaining=_nullable(_SECONDS),
        leading_for=_nullable(_SECONDS),
        replicas=_nullable({"type": "array", "items": _TEXT}),
        version=_TEXT,
        pointers=_TEXT,
        blobs=_TEXT,
        epochs_above=_COUNT,
        cell=_nullable(_TEXT),
        cells=_nullable(_TEXTS),
    ),
    "Principal": _object(name=_nullable(_TEXT), reader=_TEXTS, writer=_TEXTS, admin=_FLAG),
    "SteppedDown": _object(replica=_TEXT, term=_COUNT),
    "Problem": {
        **_object(
            type={"type": "string", "description": "`urn:milepost:<code>`"},
            title=_TEXT,
            status={"type": "integer"},
            detail=_TEXT,
            retryable=_FLAG,
            outcome={"type": "string", "enum": ["not_applied", "applied", "unknown"]},
        ),
        "additionalProperties": True,
    },
}

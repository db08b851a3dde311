"""The HTTP interface's headers, problem codes, limits, and formats of names, versions and digests, each defined once.

The service and the SDK both import this module, so that their definitions cannot differ. docs/wire.md explains each
name and limit.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final, NamedTuple

API: Final = "/v1"
PROBLEM_TYPE_PREFIX: Final = "urn:milepost:"
PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
UPLOAD_MEDIA_TYPE: Final = "application/vnd.milepost.upload+json"
STATE_MEDIA_TYPE: Final = "application/octet-stream"

NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}\Z")
NAME_RULE: Final = "1 to 200 characters of A-Z a-z 0-9 . _ -, no leading dot"
"""The characters and length that `NAME` allows, in words."""
CELL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?\Z")
CELL_RULE: Final = "1 to 32 characters of a-z 0-9 -, no dash at either end"
"""The characters and length that `CELL` allows for the name of a cell, in words."""
MAX_CELLS: Final = 64
"""The most cells of one list."""
LABEL_KEY: Final = re.compile(r"[a-z0-9._-]{1,64}\Z")
LABEL_VALUE: Final = re.compile(r"(?! )[ -~]*(?<! )\Z")
IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{1,64}\Z")
MAX_LABELS: Final = 32
MAX_LABEL_VALUE: Final = 256
MAX_LABELS_LENGTH: Final = 8000
"""The most characters of all labels in one header: nginx and Apache refuse a header line of more than 8 KiB."""
MAX_ACT_LENGTH: Final = 1000
"""The most characters of what a change does to the job, for its history."""
MAX_ROWS: Final = 64
"""The most batches whose rows one request reports."""
MAX_HISTORY_ENTRIES: Final = 1000
"""The most entries of a history that a request restores: more than a history keeps."""
MAX_HISTORY_BYTES: Final = 512 * 1024
"""The most bytes of a request that restores a history."""
MIN_TTL_SECONDS: Final = 1
MAX_TTL_SECONDS: Final = 3600
MAX_WAIT_SECONDS: Final = 60
MAX_PAGE: Final = 1000
MAX_REASON_CHARACTERS: Final = 200
"""The most characters of what a client says of the person, and of the reason, of a wish about a job."""
STANDBY_SECONDS: Final = 2.0
"""For how many seconds the service looks for a standby to whom a job can be handed over. A standby may be unknown for a
moment: it asks for the epoch again from time to time, and after a change of leader.
"""
HEARTBEAT_SECONDS: Final = 5.0
"""A stream of events is silent for this many seconds at most: then the service sends the place that the client has
reached.
"""
UNSEEN: Final = re.compile("[\x00-\x1f\x7f]")
"""The control characters, which the path of a file must not contain."""
STATE_METADATA: Final = re.compile(r"(?:.*/)?_metadata/v2/\d+")
"""The paths of Spark's metadata of an operator's state: text files that contain the absolute paths of
transformWithState's schemas. A clone changes these paths to those of the new job.
"""
MAX_STATE_METADATA_BYTES: Final = 1024 * 1024
MAX_REPLACED_BYTES: Final = 256 * 1024
"""The most bytes of the state with which a rollback of files replaces that of a handle: the state comes in JSON."""


class Header:
    """Names of the headers that Milepost defines, and of the standard headers that it uses."""

    SESSION: Final = "Milepost-Session"
    EPOCH: Final = "Milepost-Epoch"
    IDEMPOTENCY_KEY: Final = "Idempotency-Key"
    ATTEMPT: Final = "Milepost-Attempt"
    REPLAYED: Final = "Milepost-Replayed"
    OUTCOME: Final = "Milepost-Outcome"
    LABELS: Final = "Milepost-Labels"
    LABEL_PREFIX: Final = "Milepost-Label-"
    ACT: Final = "Milepost-Act"
    REVISION: Final = "Milepost-Revision"
    TERM: Final = "Milepost-Term"
    REQUEST_ID: Final = "X-Request-Id"
    CONTENT_DIGEST: Final = "Content-Digest"
    REPR_DIGEST: Final = "Repr-Digest"
    IF_MATCH: Final = "If-Match"
    IF_NONE_MATCH: Final = "If-None-Match"
    ETAG: Final = "ETag"
    RETRY_AFTER: Final = "Retry-After"
    LOCATION: Final = "Location"
    LAST_MODIFIED: Final = "Last-Modified"


class Outcome(str, Enum):
    """The three ways in which a write ends: applied, not applied, unknown."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    UNKNOWN = "unknown"


class Code(str, Enum):
    """The problem codes. The ``type`` of a problem is ``urn:milepost:<code>``."""

    SESSION_REQUIRED = "session-required"
    INCOMPLETE_BODY = "incomplete-body"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_EXIST = "not-exist"
    SESSION_UNKNOWN = "session-unknown"
    UPLOAD_UNKNOWN = "upload-unknown"
    NO_ROUTE = "no-route"
    METHOD_NOT_ALLOWED = "method-not-allowed"
    NOT_ACCEPTABLE = "not-acceptable"
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type"
    RANGE_NOT_SATISFIABLE = "range-not-satisfiable"
    ALREADY_EXISTS = "already-exists"
    NOT_DIRECTORY = "not-directory"
    NOT_EMPTY = "not-empty"
    NOT_LOCKED = "not-locked"
    HELD = "held"
    FENCED = "fenced"
    CELLS_DIFFER = "cells-differ"
    UNSAFE = "unsafe"
    ELSEWHERE = "elsewhere"
    SESSION_EXPIRED = "session-expired"
    BLOB_MISSING = "blob-missing"
    COMPACTED = "compacted"
    LENGTH_REQUIRED = "length-required"
    TOO_LARGE = "too-large"
    VERSION_MISMATCH = "version-mismatch"
    PRECONDITION_REQUIRED = "precondition-required"
    INVALID_NAME = "invalid-name"
    INVALID_REQUEST = "invalid-request"
    DIGEST_MISMATCH = "digest-mismatch"
    IDEMPOTENCY_MISMATCH = "idempotency-mismatch"
    TOO_MANY_REQUESTS = "too-many-requests"
    CORRUPT = "corrupt"
    INTERNAL = "internal"
    NOT_SUPPORTED = "not-supported"
    NO_LEADER = "no-leader"
    STORAGE_UNAVAILABLE = "storage-unavailable"
    DISCARD_FAILED = "discard-failed"
    OUTCOME_UNKNOWN = "outcome-unknown"
    SHUTTING_DOWN = "shutting-down"
    STORAGE_FULL = "storage-full"


class ProblemKind(NamedTuple):
    """The properties that all problems with one code share."""

    status: int
    title: str
    retryable: bool = False
    outcome: Outcome = Outcome.NOT_APPLIED


PROBLEMS: Final[dict[Code, ProblemKind]] = {
    Code.SESSION_REQUIRED: ProblemKind(400, "This call needs a session"),
    Code.INCOMPLETE_BODY: ProblemKind(400, "The body ended before its announced length", retryable=True),
    Code.UNAUTHENTICATED: ProblemKind(401, "Credentials are missing or wrong"),
    Code.FORBIDDEN: ProblemKind(403, "These credentials do not allow this"),
    Code.NOT_EXIST: ProblemKind(404, "It does not exist"),
    Code.SESSION_UNKNOWN: ProblemKind(404, "No such session"),
    Code.UPLOAD_UNKNOWN: ProblemKind(404, "No such upload"),
    Code.NO_ROUTE: ProblemKind(404, "No such path"),
    Code.METHOD_NOT_ALLOWED: ProblemKind(405, "This path does not take this method"),
    Code.NOT_ACCEPTABLE: ProblemKind(406, "No acceptable representation"),
    Code.UNSUPPORTED_MEDIA_TYPE: ProblemKind(415, "This media type is not taken here"),
    Code.RANGE_NOT_SATISFIABLE: ProblemKind(416, "The range lies outside of the bytes"),
    Code.ALREADY_EXISTS: ProblemKind(409, "It exists already"),
    Code.NOT_DIRECTORY: ProblemKind(409, "A file is where a directory has to be"),
    Code.NOT_EMPTY: ProblemKind(409, "The directory is not empty"),
    Code.NOT_LOCKED: ProblemKind(409, "The session holds no lock on the handle"),
    Code.HELD: ProblemKind(409, "Another session holds the epoch"),
    Code.FENCED: ProblemKind(409, "Another epoch is the current one"),
    Code.CELLS_DIFFER: ProblemKind(409, "The cell has another list of cells, and begins no job"),
    Code.UNSAFE: ProblemKind(409, "No driver could go on from there"),
    Code.ELSEWHERE: ProblemKind(421, "The job is in another cell"),
    Code.SESSION_EXPIRED: ProblemKind(410, "The session has ended"),
    Code.BLOB_MISSING: ProblemKind(410, "The bytes are gone"),
    Code.COMPACTED: ProblemKind(410, "The events asked for are no longer kept"),
    Code.LENGTH_REQUIRED: ProblemKind(411, "A length is needed here"),
    Code.TOO_LARGE: ProblemKind(413, "The request is too large"),
    Code.VERSION_MISMATCH: ProblemKind(412, "It has another version"),
    Code.PRECONDITION_REQUIRED: ProblemKind(428, "If-Match is needed here"),
    Code.INVALID_NAME: ProblemKind(422, "The name is not allowed"),
    Code.INVALID_REQUEST: ProblemKind(422, "The request is not well formed"),
    Code.DIGEST_MISMATCH: ProblemKind(422, "The bytes do not match their digest or size"),
    Code.IDEMPOTENCY_MISMATCH: ProblemKind(422, "The key was used for another request"),
    Code.TOO_MANY_REQUESTS: ProblemKind(429, "Too many requests at once", retryable=True),
    Code.CORRUPT: ProblemKind(500, "What is stored is damaged"),
    Code.INTERNAL: ProblemKind(500, "An unexpected error", outcome=Outcome.UNKNOWN),
    Code.NOT_SUPPORTED: ProblemKind(501, "Not supported by this deployment"),
    Code.NO_LEADER: ProblemKind(503, "No leader at the moment", retryable=True),
    Code.STORAGE_UNAVAILABLE: ProblemKind(503, "The storage does not answer", retryable=True),
    Code.DISCARD_FAILED: ProblemKind(
        503, "Removed, but the bytes could not be discarded yet", retryable=True, outcome=Outcome.APPLIED
    ),
    Code.OUTCOME_UNKNOWN: ProblemKind(
        503, "Whether the write was committed is not known", retryable=True, outcome=Outcome.UNKNOWN
    ),
    Code.SHUTTING_DOWN: ProblemKind(503, "The replica is shutting down", retryable=True),
    Code.STORAGE_FULL: ProblemKind(507, "The storage is full"),
}


_JOB_EPOCH_PREFIXES: Final = ("X-Milepost-", "Milepost-Job-")
"""The prefixes of headers whose names contain a job and its epoch: the first with the job's name unescaped, the second
with the name escaped.
"""
_ESCAPES: Final = {"-": "--", "_": "-u", ".": "-d"}
_UNESCAPED: Final = {escape[1]: character for character, escape in _ESCAPES.items()}


def job_epoch_header(job: str, epoch: int) -> str:
    """Return the name of the header by which a request carries the epoch of a job: the name itself contains job and
    epoch.

    It consists of letters, digits and ``-``, because nginx and Envoy drop headers with other characters in their names.
    So other characters of the job's name are escaped, and a job's name without them is not.
    """
    plain, escaped = _JOB_EPOCH_PREFIXES
    if not {"_", "."} & set(job):
        return f"{plain}{job}-{epoch}"
    return f"{escaped}{''.join(_ESCAPES.get(character, character) for character in job)}-{epoch}"


def job_epoch_of(header: str) -> tuple[str, str] | None:
    """Return the job, in lower case, and the digits of its epoch from a header's name as `job_epoch_header` makes it;
    None for any other name.
    """
    plain, escaped = (prefix.lower() for prefix in _JOB_EPOCH_PREFIXES)
    name = header.lower()
    prefix = escaped if name.startswith(escaped) else plain
    job, _, epoch = name.removeprefix(prefix).rpartition("-")
    if not name.startswith(prefix) or not job or not epoch.isascii() or not epoch.isdigit():
        return None
    if prefix == plain:
        return job, epoch
    if not re.fullmatch(r"(?:[a-z0-9]|-[-ud])+", job):
        return None
    return re.sub(r"-([-ud])", lambda found: _UNESCAPED[found[1]], job), epoch


def checked_cells(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of cells, sorted. Raises ValueError if one cannot be used, or is there twice, or if there are
    too many.
    """
    found = sorted(names)
    for name in found:
        if not CELL.match(name):
            raise ValueError(f"not the name of a cell: {name[:60]!r} ({CELL_RULE})")
    if len({*found}) != len(found) or len(found) > MAX_CELLS:
        raise ValueError(f"a list of cells has each name once, and {MAX_CELLS} at most")
    return tuple(found)


def parsed_cells(text: str) -> dict[str, tuple[str, ...]]:
    """Return the cells in a list such as ``a=http://a-0:8080,http://a-1:8080;b=http://b-0:8080``, each with the
    addresses of its replicas. A line end separates cells as ``;`` does, and ``#`` begins a comment. Raises ValueError.
    """
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        for part in line.partition("#")[0].split(";"):
            if not part.strip():
                continue
            name, equals, addresses = (each.strip() for each in part.partition("="))
            if not equals:
                raise ValueError("a list of cells has NAME=ADDRESS,ADDRESS for each, with ; between them")
            if name in found:
                raise ValueError(f"a list of cells has each name once, and this one has {name!r} twice")
            found[name] = tuple(each.strip() for each in addresses.split(",") if each.strip())
    if not found:
        raise ValueError("a list of cells names at least one")
    for name in checked_cells(found):
        if not found[name]:
            raise ValueError(f"the cell {name!r} has no address")
    return found


def cells_digest(names: Collection[str]) -> str:
    """Return the digest of a list of cells, over their names in any order. The addresses of the cells do not count,
    since clients inside and outside of a network have different ones.
    """
    return hashlib.sha256(",".join(sorted(names)).encode("ascii")).hexdigest()[:16]


def quote_version(version: str) -> str:
    """Return an opaque version as ETag and If-Match write it."""
    return f'"{version}"'


def unquote_version(tag: str) -> str | None:
    """Return the version in a strong entity tag, or None if ``tag`` is anything else (weak, ``*``, a list)."""
    match = re.fullmatch(r'"([\x21\x23-\x7e]{1,128})"', tag.strip())
    return match.group(1) if match else None


def digest_header(sha256: str) -> str:
    """Return a lower-case hex SHA-256 in the form of RFC 9530."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode('ascii')}:"


def parse_digest_header(value: str) -> str | None:
    """Return the lower-case hex SHA-256 of an RFC 9530 digest header; None if the header is malformed or has no
    SHA-256.
    """
    for member in value.split(","):
        name, _, item = member.strip().partition("=")
        if name.strip().lower() == "sha-256" and len(item) > 2 and item[0] == item[-1] == ":":
            try:
                raw = base64.b64decode(item[1:-1], validate=True)
            except ValueError:  # the value is not base64, or not ASCII
                return None
            return raw.hex() if len(raw) == 32 else None
    return None


def is_state_metadata(path: str, size: int) -> bool:
    """Return whether the file at ``path`` is one of Spark's metadata files of an operator's state. Such a file contains
    the path of the job's directory, which a clone must replace. Files too large to be one, by their ``size`` in bytes,
    are not.
    """
    return size <= MAX_STATE_METADATA_BYTES and STATE_METADATA.fullmatch(path) is not None

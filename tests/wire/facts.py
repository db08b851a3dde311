"""The facts of the wire, version 1, as one table: written from the wire's description, not from the service."""

from __future__ import annotations

from dataclasses import dataclass

CODES: dict[str, int] = {
    "session-required": 400,
    "incomplete-body": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not-exist": 404,
    "session-unknown": 404,
    "upload-unknown": 404,
    "no-route": 404,
    "method-not-allowed": 405,
    "not-acceptable": 406,
    "unsupported-media-type": 415,
    "range-not-satisfiable": 416,
    "already-exists": 409,
    "not-locked": 409,
    "held": 409,
    "fenced": 409,
    "session-expired": 410,
    "blob-missing": 410,
    "compacted": 410,
    "length-required": 411,
    "too-large": 413,
    "version-mismatch": 412,
    "precondition-required": 428,
    "invalid-name": 422,
    "invalid-request": 422,
    "digest-mismatch": 422,
    "idempotency-mismatch": 422,
    "too-many-requests": 429,
    "corrupt": 500,
    "internal": 500,
    "not-supported": 501,
    "no-leader": 503,
    "storage-unavailable": 503,
    "discard-failed": 503,
    "outcome-unknown": 503,
    "shutting-down": 503,
    "storage-full": 507,
}
OUTCOMES = {"discard-failed": "applied", "outcome-unknown": "unknown"}
WITH_RETRY_AFTER = (429, 503)

HEADERS = {
    "Milepost-Session",
    "Milepost-Epoch",
    "Idempotency-Key",
    "Milepost-Attempt",
    "Milepost-Replayed",
    "Content-Digest",
    "Milepost-Label-{key}",
    "If-Match",
    "ETag",
    "Repr-Digest",
    "Milepost-Revision",
    "Milepost-Term",
    "X-Request-Id",
    "Retry-After",
    "Location",
}

STORE = "/v1/stores/{store}"
HANDLE = STORE + "/handles/{name}"
SESSION = "/v1/sessions/{session}"

ACTS = ("Milepost-Session", "Idempotency-Key", "Milepost-Attempt")
WRITES = (*ACTS, "Milepost-Epoch")
SENDS = (*WRITES, "Content-Digest", "Milepost-Label-{key}")
KEYED = ("Idempotency-Key", "Milepost-Attempt")


@dataclass(frozen=True)
class Call:
    """A row: what it answers when it goes well, which refusals it names, which headers it takes and gives."""

    method: str
    path: str
    success: tuple[int, ...] = (200,)
    refusals: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    query: tuple[str, ...] = ()

    @property
    def about_a_store(self) -> bool:
        return self.path.startswith(STORE)


def _acting(method: str, path: str, success: int, *refusals: str, tagged: bool = False) -> Call:
    gives = ("ETag", "Milepost-Replayed") if tagged else ("Milepost-Replayed",)
    told = ("session-required", "session-expired", "session-unknown", "idempotency-mismatch", *refusals)
    return Call(method, path, (success,), told, takes=ACTS, requires=("Milepost-Session",), gives=gives)


def _writing(method: str, path: str, success: int, *refusals: str, sends: bool, match: bool, must: bool) -> Call:
    takes = (*(SENDS if sends else WRITES), *(("If-Match",) if match else ()))
    gives = ("ETag", "Milepost-Replayed") if sends else ("Milepost-Replayed",)
    named = ("incomplete-body", "digest-mismatch", "too-large", "storage-full", "upload-unknown") if sends else ()
    told = ("session-required", "session-expired", "session-unknown", "idempotency-mismatch", "fenced")
    requires = ("Milepost-Session", *(("If-Match",) if must else ()))
    return Call(method, path, (success,), (*told, *named, *refusals), takes, requires, gives)


CALLS = (
    _writing("POST", HANDLE, 201, "already-exists", sends=True, match=False, must=False),
    _writing(
        "PUT",
        HANDLE,
        200,
        *("not-exist", "version-mismatch", "precondition-required", "not-locked"),
        sends=True,
        match=True,
        must=True,
    ),
    Call("HEAD", HANDLE, (200,), ("not-exist",), gives=("ETag",)),
    Call("GET", HANDLE, (200,), ("not-exist", "not-acceptable"), gives=("ETag",)),
    _acting("POST", HANDLE + "/lock", 200, "not-exist", "corrupt", tagged=True),
    _acting("DELETE", HANDLE + "/lock", 204),
    Call(
        "GET",
        HANDLE + "/state",
        (200, 206, 307),
        ("not-exist", "version-mismatch", "range-not-satisfiable", "blob-missing", "corrupt", "storage-unavailable"),
        takes=("If-Match", "Range"),
        gives=("ETag", "Repr-Digest"),
        query=("redirect",),
    ),
    _writing("DELETE", HANDLE, 200, "version-mismatch", "discard-failed", sends=False, match=True, must=False),
    Call("GET", STORE + "/handles", (200,), ("invalid-request",), query=("limit", "token")),
    _writing("DELETE", STORE + "/handles", 200, sends=False, match=False, must=False),
    _acting("POST", STORE + "/locks", 200),
    _acting("DELETE", STORE + "/locks", 204),
    Call("GET", "/v1/stores", (200,), ("invalid-request",), query=("limit", "token")),
    Call("POST", "/v1/sessions", (201, 200), ("invalid-request", "session-expired"), takes=KEYED),
    Call("POST", SESSION + "/keepalive", (200,), ("session-expired", "session-unknown")),
    Call("GET", SESSION, (200,), ("session-expired", "session-unknown")),
    Call("DELETE", SESSION, (204,), ("session-expired", "session-unknown"), takes=KEYED),
    _acting("POST", STORE + "/epoch", 200, "held"),
    Call("GET", STORE + "/epoch"),
    _acting("DELETE", STORE + "/epoch", 204, "fenced"),
    _acting("POST", STORE + "/uploads", 201, "not-supported"),
    Call("GET", STORE + "/events", (200,), ("compacted",), takes=("Last-Event-ID",), query=("after",)),
    Call("GET", "/v1/status"),
    Call("GET", "/livez"),
    Call("GET", "/readyz", (200, 503), query=("verbose",)),
    Call("GET", "/leader", (200, 503)),
    Call("GET", "/metrics"),
)

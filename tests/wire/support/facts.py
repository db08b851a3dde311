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
    "not-directory": 409,
    "not-empty": 409,
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
HEADERS = {
    "Milepost-Session",
    "Milepost-Epoch",
    "Idempotency-Key",
    "Milepost-Attempt",
    "Milepost-Replayed",
    "Content-Digest",
    "If-Match",
    "If-None-Match",
    "ETag",
    "Repr-Digest",
    "Milepost-Labels",
    "Milepost-Revision",
    "Milepost-Term",
    "X-Request-Id",
    "Retry-After",
    "Location",
}

OF_HTTP = {
    "Last-Modified",
    "Range",
    "Content-Range",
    "Accept-Ranges",
    "Last-Event-ID",
    "WWW-Authenticate",
    "Cache-Control",
}
"""Headers that mean what they always do."""

STORE = "/v1/stores/{store}"
HANDLE = STORE + "/handles/{name}"
SESSION = "/v1/sessions/{session}"
JOB_FILES = STORE + "/files"
JOB_FILE = JOB_FILES + "/{path}"
FILES = "/webhdfs/v1/{path}"

KEYED = frozenset({"Idempotency-Key", "Milepost-Attempt"})
ACTS = KEYED | {"Milepost-Session"}
WRITES = ACTS | {"Milepost-Epoch"}
SENDS = WRITES | {"Content-Digest", "Milepost-Labels"}  # and each label by itself, whose names are no fixed ones

ALWAYS = frozenset({"unauthenticated", "forbidden", "internal"})
FIELDS = frozenset({"invalid-request", "incomplete-body", "too-large"})
"""Of every call that changes something: its body is JSON, or bytes, or must have nothing in it."""

LIVING = frozenset({"session-unknown", "session-expired", "corrupt"})
COMMITS = (
    FIELDS
    | LIVING
    | {"idempotency-mismatch", "too-many-requests"}
    | {"storage-unavailable", "storage-full", "outcome-unknown", "shutting-down"}
)
CHANGES = COMMITS | {"session-required"}
OF_FILES = COMMITS - {"session-unknown", "session-expired"}
"""A write of files has an epoch, and needs no session."""

RECEIVES = frozenset({"digest-mismatch", "upload-unknown"})
OF_NO_CALL = frozenset({"no-route", "method-not-allowed", "length-required"})
"""Told of paths and methods that are not there, and kept for backends to come."""

REFUSED_FILES = frozenset({400, 401, 403, 404})
"""The statuses of Java's exceptions."""


@dataclass(frozen=True)
class Call:
    """A row: what it answers when it goes well and when not, which headers and parameters it takes and gives."""

    method: str
    path: str
    success: frozenset[int] = frozenset({200})
    refusals: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    requires: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()
    query: frozenset[str] = frozenset()
    sent_on_with: frozenset[str] = frozenset()
    asks: frozenset[str] = frozenset()
    """The query parameters that must be there."""

    @property
    def about_a_store(self) -> bool:
        return self.path.startswith(STORE)

    @property
    def by_the_leader(self) -> bool:
        return self.path.startswith("/v1/") and self.path not in ("/v1/status", "/v1/whoami")

    @property
    def guarded(self) -> bool:
        """Whether it needs a token where there are tokens."""
        return self.path.startswith(("/v1/", "/webhdfs/"))

    @property
    def statuses(self) -> set[int]:
        """Of the answers that are no problems."""
        return {*self.success, *([307] if self.by_the_leader else [])}

    @property
    def codes(self) -> set[str]:
        """Of the answers that are problems."""
        if not self.path.startswith("/v1/"):
            return set()
        by_place = {"invalid-name": "{" in self.path, "no-leader": self.by_the_leader}
        return {*ALWAYS, *self.refusals, *(code for code, possible in by_place.items() if possible)}

    def gives_with(self, status: int) -> set[str]:
        """The headers that an answer may have, besides those that HTTP itself needs."""
        own = self.gives if status in self.success and status != 307 else ()
        about = ["Milepost-Revision"] if self.about_a_store and status != 307 else []
        with_status = GIVEN_WITH.get(status, ()) if self.guarded else ()
        sent_on = self.sent_on_with if status == 307 else ()
        return {*own, *sent_on, *about, *with_status, "Milepost-Term", "X-Request-Id", "Cache-Control"}


GIVEN_WITH = {
    206: {"Content-Range"},
    307: {"Location"},
    401: {"WWW-Authenticate"},
    416: {"Content-Range"},
    429: {"Retry-After"},
    503: {"Retry-After"},
}


def _set(*members: str) -> frozenset[str]:
    return frozenset(members)


def _read(path: str, *refusals: str, gives: frozenset[str] = _set(), query: frozenset[str] = _set()) -> Call:
    return Call("GET", path, refusals=_set("not-acceptable", *refusals), gives=gives, query=query)


def _acting(method: str, path: str, success: int, *refusals: str, tagged: bool = False) -> Call:
    gives = _set("Milepost-Replayed", *(["ETag"] if tagged else []))
    codes = CHANGES | set(refusals)
    return Call(method, path, frozenset({success}), codes, ACTS, _set("Milepost-Session"), gives)


def _sending(method: str, success: int, *refusals: str, match: bool) -> Call:
    codes = CHANGES | RECEIVES | {"fenced", *refusals}
    matches = _set(*(["If-Match"] if match else []))
    return Call(
        method,
        HANDLE,
        frozenset({success}),
        codes,
        takes=SENDS | matches,
        requires=matches | {"Milepost-Session"},
        gives=_set("ETag", "Milepost-Replayed"),
    )


def _removing(path: str, *refusals: str, match: bool) -> Call:
    codes = CHANGES | {"fenced", *refusals}
    takes = WRITES | set(["If-Match"] if match else [])
    return Call("DELETE", path, frozenset({200}), codes, takes, _set("Milepost-Session"), _set("Milepost-Replayed"))


def _noting(path: str, success: int = 200) -> Call:
    """A call that notes something in the leader's memory: it needs no session, and may be done again without a key."""
    codes = FIELDS | {"fenced", "too-many-requests", "unsupported-media-type", "corrupt"}
    return Call("POST", path, frozenset({success}), codes, _set("Milepost-Epoch"))


CALLS = (
    _sending("POST", 201, "already-exists", match=False),
    _sending("PUT", 200, "not-exist", "version-mismatch", "precondition-required", "not-locked", match=True),
    Call("HEAD", HANDLE, refusals=_set("not-exist", "corrupt"), gives=_set("ETag")),
    _read(HANDLE, "not-exist", "corrupt", gives=_set("ETag")),
    _acting("POST", HANDLE + "/lock", 200, "not-exist", tagged=True),
    _acting("DELETE", HANDLE + "/lock", 204),
    Call(
        "GET",
        HANDLE + "/state",
        frozenset({200, 206, 307}),
        _set("not-exist", "version-mismatch", "range-not-satisfiable", "blob-missing", "corrupt")
        | {"storage-unavailable", "invalid-request", "not-acceptable"},
        takes=_set("If-Match", "Range"),
        gives=_set("ETag", "Repr-Digest", "Accept-Ranges"),
        query=_set("redirect"),
        sent_on_with=_set("ETag", "Repr-Digest", "Milepost-Revision"),
    ),
    _removing(HANDLE, "version-mismatch", "discard-failed", match=True),
    _read(STORE + "/handles", "invalid-request", "corrupt", query=_set("limit", "token")),
    _removing(STORE + "/handles", match=False),
    _acting("POST", STORE + "/locks", 200),
    _acting("DELETE", STORE + "/locks", 204),
    _read("/v1/stores", "invalid-request", query=_set("limit", "token")),
    _read("/v1/sessions", "invalid-request", query=_set("limit", "token")),
    Call(
        "POST",
        "/v1/sessions",
        frozenset({201, 200}),
        (COMMITS - {"session-unknown"}) | {"invalid-name", "unsupported-media-type", "not-acceptable"},
        takes=KEYED,
        gives=_set("Milepost-Replayed"),
    ),
    Call("POST", SESSION + "/keepalive", refusals=FIELDS | LIVING | {"storage-unavailable"}),
    _read(SESSION, *LIVING),
    Call("DELETE", SESSION, frozenset({204}), COMMITS, takes=KEYED, gives=_set("Milepost-Replayed")),
    _acting("POST", STORE + "/epoch", 200, "held", "unsupported-media-type"),
    _read(STORE + "/epoch", "corrupt"),
    _acting("DELETE", STORE + "/epoch", 204, "fenced"),
    _read(STORE + "/tree", "corrupt"),
    Call(
        "POST",
        STORE + "/tree/verification",
        refusals=FIELDS | {"corrupt", "storage-unavailable", "unsupported-media-type"},
    ),
    Call(
        "POST",
        STORE + "/tree/rollback",
        frozenset({200}),
        CHANGES | {"not-exist", "fenced", "unsupported-media-type"},
        WRITES,
        _set("Milepost-Session"),
        _set("Milepost-Replayed"),
    ),
    Call(
        "POST",
        STORE + "/tree/clone",
        frozenset({201}),
        CHANGES
        | {"not-exist", "not-empty", "fenced", "corrupt", "blob-missing", "storage-full", "unsupported-media-type"},
        WRITES,
        _set("Milepost-Session"),
        _set("Milepost-Replayed"),
    ),
    _acting(
        "PUT", STORE + "/tree/savepoints/{savepoint}", 200, "not-exist", "already-exists", "unsupported-media-type"
    ),
    _acting("DELETE", STORE + "/tree/savepoints/{savepoint}", 204, "not-exist"),
    Call(
        "GET",
        STORE + "/state/{state}",
        refusals=_set(
            "not-exist",
            "corrupt",
            "blob-missing",
            "invalid-request",
            "not-acceptable",
            "not-supported",
            "storage-unavailable",
            "too-many-requests",
        ),
        query=_set("key", "variable", "version", "limit", "token"),
        asks=_set("key"),
    ),
    _noting(STORE + "/instances"),
    _noting(STORE + "/instances/verification"),
    _noting(STORE + "/instances/snapshots", 204),
    _noting(STORE + "/instances/deactivation"),
    Call("POST", STORE + "/instances/locations", refusals=FIELDS | {"corrupt", "unsupported-media-type"}),
    _read(STORE + "/instances", "invalid-request", "corrupt", query=_set("limit", "token")),
    Call(
        "GET",
        STORE + "/instances/lagging",
        refusals=_set("not-acceptable", "invalid-request", "corrupt"),
        query=_set("run", "version", "versions", "seconds", "limit"),
        asks=_set("run", "version", "versions"),
    ),
    _acting("POST", STORE + "/uploads", 201, "not-supported", "upload-unknown", "unsupported-media-type"),
    Call(
        "GET",
        STORE + "/events",
        refusals=_set("compacted", "not-supported"),
        takes=_set("Last-Event-ID"),
        query=_set("after"),
    ),
    _read(
        JOB_FILES,
        *("not-exist", "not-directory", "corrupt", "invalid-request", "storage-unavailable"),
        query=_set("under", "limit", "token"),
    ),
    Call(
        "HEAD",
        JOB_FILE,
        refusals=_set("not-exist", "version-mismatch", "corrupt", "storage-unavailable")
        | {"invalid-request", "not-acceptable"},
        takes=_set("If-Match"),
        gives=_set("ETag", "Repr-Digest", "Last-Modified"),
    ),
    Call(
        "GET",
        JOB_FILE,
        frozenset({200, 206}),
        _set("not-exist", "version-mismatch", "range-not-satisfiable", "blob-missing", "corrupt")
        | {"storage-unavailable", "invalid-request", "not-acceptable"},
        takes=_set("If-Match", "Range"),
        gives=_set("ETag", "Repr-Digest", "Last-Modified", "Accept-Ranges"),
    ),
    Call(
        "PUT",
        JOB_FILE,
        frozenset({200, 201}),
        OF_FILES | {"already-exists", "not-directory", "fenced", "digest-mismatch", "blob-missing"},
        takes=KEYED | {"Milepost-Epoch", "Content-Digest", "If-None-Match"},
        gives=_set("ETag", "Repr-Digest", "Milepost-Replayed"),
        query=_set("directory"),
    ),
    Call(
        "DELETE",
        JOB_FILE,
        frozenset({204}),
        OF_FILES | {"not-empty", "fenced"},
        takes=KEYED | {"Milepost-Epoch"},
        gives=_set("Milepost-Replayed"),
        query=_set("recursive"),
    ),
    Call(
        "POST",
        STORE + "/epoch/credentials",
        refusals=FIELDS | LIVING | _set("session-required", "fenced", "not-supported", "storage-unavailable"),
        takes=_set("Milepost-Session"),
        requires=_set("Milepost-Session"),
    ),
    Call("POST", "/oauth2/token", frozenset({200, 400, 401})),
    Call(
        "GET",
        FILES,
        frozenset({200, 307}) | REFUSED_FILES,
        query=_set("op", "offset", "length", "startAfter", "noredirect", "excludedatanodes"),
        asks=_set("op"),
    ),
    Call(
        "PUT",
        FILES,
        frozenset({200, 201, 307}) | REFUSED_FILES,
        query=_set(
            "op",
            "overwrite",
            "createflag",
            "createparent",
            "destination",
            "renameoptions",
            "noredirect",
            "excludedatanodes",
        ),
        asks=_set("op"),
    ),
    Call("DELETE", FILES, frozenset({200}) | REFUSED_FILES, query=_set("op", "recursive"), asks=_set("op")),
    Call("GET", "/v1/status"),
    Call("GET", "/v1/whoami"),
    Call(
        "POST",
        "/v1/step-down",
        refusals=FIELDS | {"forbidden", "fenced", "unsupported-media-type", "outcome-unknown"},
    ),
    Call("GET", "/livez"),
    Call("GET", "/readyz", frozenset({200, 503}), query=_set("verbose", "exclude")),
    Call("GET", "/leader", frozenset({200, 503})),
    Call("GET", "/metrics"),
)

"""The table of who may what: which right each call needs. What is not in it needs an administrator."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from milepost_server.http.access.rights import Rights


class Need(Enum):
    """What a call needs, where the deployment has tokens.

    ``NOTHING`` calls are answered to everybody: they show nothing of what is stored, or prove in their own way who
    asks. Those of ``READ_OF_JOB`` and ``WRITE_OF_JOB`` are about what a job's own token opens as well: its files, and
    where its state is loaded. Some name the store inside of a path that only their route takes apart; then the route
    asks for the right (`milepost_server.http.access.job_access`).
    """

    NOTHING = auto()
    TOKEN = auto()
    READ = auto()
    WRITE = auto()
    READ_OF_JOB = auto()
    WRITE_OF_JOB = auto()
    READ_ALL = auto()
    WRITE_ANY = auto()
    ADMIN = auto()


class Row(NamedTuple):
    """What a call needs, and the name under which it is in the audit log; empty for a call that is not."""

    need: Need
    audit_name: str = ""


_STORE: Final = "/v1/stores/{store}"
_HANDLES: Final = f"{_STORE}/handles"
_HANDLE: Final = f"{_HANDLES}/{{name}}"
_TREE: Final = f"{_STORE}/tree"
_JOB_FILES: Final = f"{_STORE}/files"
_JOB_FILE: Final = f"{_JOB_FILES}/{{path:path}}"
_INSTANCES: Final = f"{_STORE}/instances"
_FILES: Final = "/webhdfs/v1/{path:path}"

TABLE: Final[dict[str, Row]] = {
    "GET /livez": Row(Need.NOTHING),
    "GET /readyz": Row(Need.NOTHING),
    "GET /leader": Row(Need.NOTHING),
    "GET /metrics": Row(Need.NOTHING),
    "GET /docs": Row(Need.NOTHING),
    "GET /docs/{name}": Row(Need.NOTHING),
    "GET /openapi.json": Row(Need.NOTHING),
    "GET /": Row(Need.NOTHING),  # a page without data, which asks for them with a token
    "GET /page/{name}": Row(Need.NOTHING),
    "GET /redoc": Row(Need.NOTHING),
    "POST /oauth2/token": Row(Need.NOTHING),  # the credential of a job is in its body
    "POST /datanodes/heartbeat": Row(Need.NOTHING),  # replicas prove each message by the key that they share
    "POST /datanodes/publish": Row(Need.NOTHING),
    "GET /v1/status": Row(Need.TOKEN),
    "GET /v1/whoami": Row(Need.TOKEN),
    "POST /v1/step-down": Row(Need.ADMIN, "step-down"),
    # A session belongs to who opened it, and the rules look after that; to read it is enough to own it.
    "GET /v1/sessions": Row(Need.READ_ALL),
    "POST /v1/sessions": Row(Need.WRITE_ANY),
    "GET /v1/sessions/{session}": Row(Need.TOKEN),
    "POST /v1/sessions/{session}/keepalive": Row(Need.WRITE_ANY),
    "DELETE /v1/sessions/{session}": Row(Need.WRITE_ANY),
    "GET /v1/stores": Row(Need.TOKEN),  # shows those that the client may read
    f"GET {_STORE}/events": Row(Need.READ),
    f"GET {_HANDLES}": Row(Need.READ),
    f"DELETE {_HANDLES}": Row(Need.WRITE, "clear"),
    f"HEAD {_HANDLE}": Row(Need.READ),
    f"GET {_HANDLE}": Row(Need.READ),
    f"GET {_HANDLE}/state": Row(Need.READ),
    f"POST {_HANDLE}": Row(Need.WRITE),
    f"PUT {_HANDLE}": Row(Need.WRITE),
    f"DELETE {_HANDLE}": Row(Need.WRITE),
    f"POST {_HANDLE}/lock": Row(Need.WRITE),
    f"DELETE {_HANDLE}/lock": Row(Need.WRITE),
    f"POST {_STORE}/locks": Row(Need.WRITE),
    f"DELETE {_STORE}/locks": Row(Need.WRITE),
    f"POST {_STORE}/uploads": Row(Need.WRITE),
    f"GET {_STORE}/epoch": Row(Need.READ),
    f"POST {_STORE}/epoch": Row(Need.WRITE),
    f"DELETE {_STORE}/epoch": Row(Need.WRITE),
    f"POST {_STORE}/epoch/credentials": Row(Need.WRITE, "issue-credential"),
    f"GET {_TREE}": Row(Need.READ),
    f"POST {_TREE}/verification": Row(Need.READ),  # changes nothing
    f"POST {_TREE}/rollback": Row(Need.WRITE, "rollback"),  # and to be the driver; else an administrator
    f"POST {_TREE}/clone": Row(Need.WRITE, "clone"),  # and to be a reader of the source
    f"PUT {_TREE}/savepoints/{{savepoint}}": Row(Need.WRITE, "savepoint"),
    f"DELETE {_TREE}/savepoints/{{savepoint}}": Row(Need.WRITE, "drop-savepoint"),
    f"GET {_JOB_FILES}": Row(Need.READ_OF_JOB),
    f"GET {_JOB_FILE}": Row(Need.READ_OF_JOB),
    f"HEAD {_JOB_FILE}": Row(Need.READ_OF_JOB),
    f"PUT {_JOB_FILE}": Row(Need.WRITE_OF_JOB),
    f"DELETE {_JOB_FILE}": Row(Need.WRITE_OF_JOB),
    f"GET {_STORE}/state/{{state}}": Row(Need.READ),
    f"GET {_INSTANCES}": Row(Need.READ_OF_JOB),
    f"GET {_INSTANCES}/lagging": Row(Need.READ_OF_JOB),
    f"POST {_INSTANCES}/locations": Row(Need.READ_OF_JOB),  # changes nothing
    f"POST {_INSTANCES}": Row(Need.WRITE_OF_JOB),
    f"POST {_INSTANCES}/verification": Row(Need.WRITE_OF_JOB),  # and notes what was forgotten
    f"POST {_INSTANCES}/snapshots": Row(Need.WRITE_OF_JOB),
    f"POST {_INSTANCES}/deactivation": Row(Need.WRITE_OF_JOB),
    f"GET {_FILES}": Row(Need.READ_OF_JOB),
    f"PUT {_FILES}": Row(Need.WRITE_OF_JOB),
    f"POST {_FILES}": Row(Need.WRITE_OF_JOB),
    f"DELETE {_FILES}": Row(Need.WRITE_OF_JOB),
}
UNKNOWN: Final = Row(Need.ADMIN)

SHORT: Final = {
    Need.READ: "read the store {store}, which takes the role reader",
    Need.WRITE: "write the store {store}, which takes the role writer",
    Need.READ_OF_JOB: "read the store {store}, which takes the role reader",
    Need.WRITE_OF_JOB: "write the store {store}, which takes the role writer",
    Need.READ_ALL: "read every store, which takes the role reader=*",
    Need.WRITE_ANY: "write any store, which takes the role writer of one",
    Need.ADMIN: "do what takes the role admin",
}
"""What a client without the right may not do, and which role it lacks, in words."""


def row_of(method: str, path: str) -> Row:
    """Return the row of a call; ``path`` is as the route has it, with its parameters in braces."""
    return TABLE.get(f"{method} {path}", UNKNOWN)


def allows(rights: Rights, need: Need, store: str | None) -> bool:
    """Return whether these rights are enough. ``store`` is the one that the call is about; None if it is about none."""
    match need:
        case Need.NOTHING | Need.TOKEN:
            return True
        case Need.READ | Need.READ_OF_JOB:
            return store is not None and rights.may_read(store)
        case Need.WRITE | Need.WRITE_OF_JOB:
            return store is not None and rights.may_write(store)
        case Need.READ_ALL:
            return rights.reads_all
        case Need.WRITE_ANY:
            return rights.writes_any
        case Need.ADMIN:
            return rights.admin

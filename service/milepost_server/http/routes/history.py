"""The routes of the history of a job: read it, and restore it from a backup."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import GET_JOB_HISTORY, RESTORE_JOB_HISTORY
from milepost.wire import MAX_HISTORY_BYTES, MAX_HISTORY_ENTRIES, MAX_REASON_CHARACTERS, Code
from milepost_server.basics.problems import problem
from milepost_server.http.bodies import Size, long_json_of
from milepost_server.http.headers import accepts, caller, checked_name
from milepost_server.http.openapi.documents import (
    CORRUPT_EXAMPLE,
    PROCESS_EXAMPLE,
    answers,
    json_body,
    json_schema,
)
from milepost_server.http.queries import page_of, to_token
from milepost_server.http.replies import about, json_reply, json_response
from milepost_server.http.requests import HttpRequest
from milepost_server.http.routes.sessions import MOST_HOLDER_CHARACTERS, NewProcess, checked_process
from milepost_server.model.history import HistoryEntry
from milepost_server.model.paths import checked_path
from milepost_server.model.requests.history import RestoreHistory

router = APIRouter(tags=["jobs"])


@answers(
    router,
    GET_JOB_HISTORY,
    {
        200: (
            "A page of the history.",
            {
                "job": "flights",
                "entries": [
                    {
                        "kind": "batch-committed",
                        "at": "2026-01-01T12:00:00.000Z",
                        "revision": 42,
                        "id": "42",
                        "epoch": 3,
                        "batch": 7,
                        "directory": "checkpoint",
                        "snapshot": 42,
                        "input_rows": 1200,
                    },
                    {
                        "kind": "epoch-granted",
                        "at": "2026-01-01T11:59:30.000Z",
                        "revision": 40,
                        "id": "40",
                        "epoch": 3,
                        "session": "flights-driver-1",
                        "holder": "local-1@spark-1:4711",
                        "process": PROCESS_EXAMPLE,
                    },
                ],
                "corrupt": [CORRUPT_EXAMPLE],
                "next": "NDAuMA",
            },
        )
    },
)
async def history(request: HttpRequest, store: str) -> Response:
    """Return what became of a job, the newest entry first: its epochs, its batches, and what people did.

    An entry has the members that its `kind` needs; the others are absent. `id` is the place from which the events of
    the job go on (`Last-Event-ID`). A history is bounded: the oldest entries are dropped. `corrupt` names its stored
    pages that cannot be read, on each page of this listing.
    """
    checked_name(store, "store")
    accepts(request, "application/json")
    reply = request.operations.history.page(store, *page_of(request, GET_JOB_HISTORY))
    body = {**reply.answer.body, "next": to_token(reply.answer.body["next"])}
    return json_response(body, 200, about(reply.revision, reply.term))


_Time = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")]

_MOST_CHARACTERS: Final = {
    "kind": 60,
    "holder": MOST_HOLDER_CHARACTERS,
    "how": 60,
    "by": 400,
    "source": 500,
    "reason": MAX_REASON_CHARACTERS,
}
"""The most characters of the texts of an entry: as many as the requests take that enter them."""


class SavedEntry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An entry of a saved history: the members of `HistoryEntry` that do not depend on the service."""

    kind: str
    at: _Time
    epoch: Size = 0
    session: str = ""
    holder: str = ""
    process: NewProcess | None = None
    since: _Time | None = None
    how: str = ""
    by: str = ""
    batch: Size | None = None
    directory: str | None = None
    replay: bool = False
    previous_batch: Size | None = None
    savepoint: str = ""
    source: str = ""
    files: Size = 0
    bytes: Size = 0
    reason: str = ""
    begun_under: Size = 0
    input_rows: Size | None = None
    partitions: Size = 0
    previous_partitions: Size = 0
    entries: Size = 0


class HistoryBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that restores a history."""

    saved: _Time
    source: str
    entries: Annotated[list[SavedEntry], msgspec.Meta(min_length=1, max_length=MAX_HISTORY_ENTRIES)]


_SIZE: dict[str, Any] = {"type": "integer", "format": "int64", "minimum": 0}
_SHOWN_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
_ENTRY: dict[str, Any] = json_schema(
    {
        **{name: {"type": "string", "maxLength": most} for name, most in _MOST_CHARACTERS.items()},
        **{name: {"type": "string"} for name in ("session", "directory", "savepoint")},
        **dict.fromkeys(("at", "since"), _SHOWN_TIME),
        **dict.fromkeys(
            ("epoch", "batch", "previous_batch", "files", "bytes", "begun_under", "input_rows", "partitions"), _SIZE
        ),
        **dict.fromkeys(("previous_partitions", "entries"), _SIZE),
        "replay": {"type": "boolean"},
        "process": json_schema(
            {**{name: {"type": "string"} for name in ("host", "application", "ui")}, "pid": _SIZE}, []
        ),
    },
    ["kind", "at"],
)


@answers(
    router,
    RESTORE_JOB_HISTORY,
    {200: ("How many entries were entered; the oldest are left out if there are too many.", {"entered": 2})},
    body=json_body(
        {
            "saved": "2026-01-02T00:00:00.000Z",
            "source": "flights",
            "entries": [
                {
                    "kind": "epoch-granted",
                    "at": "2026-01-01T11:59:30.000Z",
                    "epoch": 3,
                    "session": "flights-driver-1",
                    "holder": "local-1@spark-1:4711",
                    "process": PROCESS_EXAMPLE,
                },
                {
                    "kind": "batch-committed",
                    "at": "2026-01-01T12:00:00.000Z",
                    "epoch": 3,
                    "batch": 7,
                    "directory": "checkpoint",
                    "input_rows": 1200,
                },
            ],
        },
        {
            "saved": _SHOWN_TIME,
            "source": {"type": "string"},
            "entries": {"type": "array", "minItems": 1, "maxItems": MAX_HISTORY_ENTRIES, "items": _ENTRY},
        },
        ["saved", "source", "entries"],
    ),
)
async def restore(request: HttpRequest, store: str) -> Response:
    """Restore the history of a job from a backup that was made at the time `saved`, the oldest entry first, in one
    commit. `source` is the name of the job in the backup.

    The store must have no history yet, and no session may hold its epoch. The entries keep their times, epochs and
    holders, and each is `restored`; none names a snapshot, since those were of another service. An entry
    `history-restored` comes after them.
    """
    checked_name(store, "store")
    acting = caller(request)
    async with long_json_of(request, HistoryBody, MAX_HISTORY_BYTES) as body:
        checked_name(body.source, "source")
        _check_time(body.saved)
        entries = tuple(_entry(each, number) for number, each in enumerate(body.entries, 1))
        request.detail = f"{len(entries)} entries of {body.source}, saved at {body.saved}"
        asked = RestoreHistory(acting.attempt, store, body.saved, body.source, entries)
        return json_reply(await request.operations.perform(asked))


def _entry(saved: SavedEntry, number: int) -> HistoryEntry:
    """Return an entry as it will be stored. Raises ``invalid-request`` and ``invalid-name`` problems."""
    for name, most in _MOST_CHARACTERS.items():
        text = getattr(saved, name)
        if len(text) > most or not text.isprintable():
            raise problem(Code.INVALID_REQUEST, f"{name} of entry {number} takes at most {most} printable characters")
    for time in filter(None, (saved.at, saved.since)):
        _check_time(time)
    for what in ("session", "savepoint"):
        if name := getattr(saved, what):
            checked_name(name, what)
    try:
        directory = None if saved.directory is None else checked_path(saved.directory)
    except ValueError as error:
        raise problem(Code.INVALID_REQUEST, f"the directory of entry {number}: {error}") from error
    members: dict[str, Any] = {name: getattr(saved, name) for name in saved.__struct_fields__}
    members["directory"] = directory
    members["since"] = saved.since or ""
    members["process"] = None if saved.process is None else checked_process(saved.process)
    return HistoryEntry(revision=0, **members)


def _check_time(text: str) -> None:
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise problem(Code.INVALID_REQUEST, f"{text!r} is no time: {error}") from error

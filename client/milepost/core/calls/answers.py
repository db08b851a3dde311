"""Readers: functions that turn a 2xx answer of the service into the typed record that an operation returns.

A reader ignores members that it does not know, and raises ``TypeError``, ``ValueError`` or ``LookupError`` for an
answer that is not such a record. Such an answer did not come from the service, and the SDK trusts none of it
(`milepost.core.calls.judgement`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from milepost.core.calls import members
from milepost.core.calls.members import Document
from milepost.core.effects import Answer
from milepost.job_types import DroppedJob, JobState
from milepost.types import (
    CorruptHandle,
    Epoch,
    Handle,
    LockedHandles,
    Removal,
    Rights,
    SessionInfo,
    SessionSummary,
    Snapshot,
    Status,
    SteppedDown,
    StoreSummary,
    Wish,
)
from milepost.wire import Header, unquote_version

T = TypeVar("T")

Reader = Callable[[Answer], T]


def whatever(answer: Answer) -> Any:
    """Return the answer itself. This is the reader of a request whose answer has no content of interest."""
    return answer


def nothing(answer: Answer) -> None:
    """Check that the status of an answer is 204 (No Content). This is the reader of a request that returns nothing."""
    _check_status(answer, (204,))


def version(answer: Answer) -> str:
    """Read the version of a handle or a file from the ETag of an answer."""
    _check_status(answer, (200,))
    found = unquote_version(answer.headers.get(Header.ETAG.lower(), ""))
    if found is None:
        raise ValueError("the ETag holds no version")
    return found


def document(reader: Callable[[Document], T], *statuses: int) -> Reader[T]:
    """Make a reader that applies ``reader`` to the JSON object of an answer with one of ``statuses`` (default: 200)."""

    def read(answer: Answer) -> T:
        _check_status(answer, statuses or (200,))
        found = json.loads(answer.body)
        if not isinstance(found, dict):
            raise TypeError("not a JSON object")
        return reader(found)

    return read


def handle(document: Document) -> Handle:
    """Read the record of a handle from a JSON document."""
    return Handle(
        name=members.text(document, "name"),
        version=members.text(document, "version"),
        size=members.whole(document, "size"),
        sha256=members.sha256(document),
        created=members.time(document["created"]),
        updated=members.time(document["updated"]),
        labels=members.labels(document.get("labels", {})),
        locks=members.texts(document, "locks"),
        epoch=None if document.get("epoch") is None else members.whole(document, "epoch"),
        removing=members.flag(document.get("removing", False)),
    )


def handle_named(name: str) -> Callable[[Document], Handle]:
    """Make a reader for the record of the handle ``name``; it refuses the record of any other handle."""

    def read(document: Document) -> Handle:
        found = handle(document)
        if found.name != name:
            raise ValueError("the record of another handle")
        return found

    return read


def page(after: str | None) -> Callable[[Document], tuple[list[Handle], list[CorruptHandle], str | None]]:
    """Make a reader for the page of handles after the token ``after``. It returns the handles, the damaged handles, and
    the next page's token (None on the last page).

    The reader refuses a page whose next token is ``after`` again, because the listing would never end.
    """

    def read(document: Document) -> tuple[list[Handle], list[CorruptHandle], str | None]:
        both = locked(document)
        return both.handles, both.corrupt, members.next_page(document, after)

    return read


def locked(document: Document) -> LockedHandles:
    """Read the result of locking all handles of a store: their records, and which records are damaged."""
    damaged = members.entries(document, "corrupt") if "corrupt" in document else []
    return LockedHandles(
        handles=[handle(entry) for entry in members.entries(document, "handles")],
        corrupt=[CorruptHandle(members.text(entry, "name"), members.text(entry, "reason")) for entry in damaged],
    )


def removal(document: Document) -> Removal:
    """Read the result of a removal: whether the handle was removed, and which sessions still lock it."""
    return Removal(members.flag(document["removed"]), members.texts(document, "locks"))


def cleared(document: Document) -> int:
    """Read how many handles a clear removed."""
    return members.whole(document, "cleared")


def rows_entered(document: Document) -> int:
    """Read how many entries of a history got their rows."""
    return members.whole(document, "entered")


def history_restored(document: Document) -> int:
    """Read how many entries of a history were restored."""
    return members.whole(document, "entered")


def dropped_job(document: Document) -> DroppedJob:
    """Read what a drop of a job removed."""
    return DroppedJob(members.whole(document, "handles"), members.whole(document, "snapshots"))


def epoch(document: Document) -> Epoch:
    """Read an epoch; a store that never had an epoch has epoch 0."""
    since = document.get("since")
    return Epoch(
        epoch=members.whole(document, "epoch"),
        session=members.text_or_none(document, "session"),
        holder=members.text_or_none(document, "holder"),
        since=None if since is None else members.time(since),
        wish=wish(document),
    )


def wish(document: Document) -> Wish | None:
    """Read the member ``wish``: what a person asks of the driver of a job. A service of an earlier release has none."""
    found = document.get("wish")
    if found is None:
        return None
    return Wish(
        kind=members.text(found, "kind"),
        epoch=members.whole(found, "epoch"),
        at=members.time(found["at"]),
        by=members.text_or_none(found, "by"),
        who=members.text_or_none(found, "who"),
        reason=members.text_or_none(found, "reason"),
        savepoint=members.text_or_none(found, "savepoint"),
    )


def job_state(document: Document) -> JobState:
    """Read the state of a job after a wish about it."""
    return JobState(
        job=members.text(document, "job"),
        state=members.text(document, "state"),
        epoch=epoch(document),
        wish=wish(document),
    )


def epoch_of(session: str | None) -> Callable[[Document], Epoch]:
    """Make a reader for the epoch that was granted to ``session``; it refuses an epoch of another session."""

    def read(document: Document) -> Epoch:
        found = epoch(document)
        if found.epoch < 1 or found.session != session:
            raise ValueError("no epoch of this session")
        return found

    return read


def session(document: Document) -> SessionInfo:
    """Read a session as the service describes it."""
    ttl = members.seconds(document, "ttl")
    locks = members.entries(document, "locks") if "locks" in document else []
    return SessionInfo(
        session=members.text(document, "session"),
        ttl=ttl,
        holder=members.text_or_none(document, "holder"),
        expires_in=members.seconds(document, "expires_in") if "expires_in" in document else ttl,
        locks=tuple(f"{members.text(lock, 'store')}/{members.text(lock, 'name')}" for lock in locks),
    )


def session_of(id_: str) -> Callable[[Document], SessionInfo]:
    """Make a reader for the session ``id_`` with a TTL above 0 seconds; it refuses any other session."""

    def read(document: Document) -> SessionInfo:
        found = session(document)
        if found.session != id_ or found.ttl <= 0:
            raise ValueError("another session")
        return found

    return read


def sessions(after: str | None) -> Callable[[Document], tuple[list[SessionSummary], str | None]]:
    """Make a reader for the page of sessions after the token ``after``. It returns the sessions, and the next page's
    token (None on the last page).

    The reader refuses a page whose next token is ``after`` again, because the listing would never end.
    """

    def read(document: Document) -> tuple[list[SessionSummary], str | None]:
        return [_session_summary(entry) for entry in members.entries(document, "sessions")], members.next_page(
            document, after
        )

    return read


def _session_summary(document: Document) -> SessionSummary:
    return SessionSummary(
        session=members.text(document, "session"),
        ttl=members.seconds(document, "ttl"),
        holder=members.text_or_none(document, "holder"),
        expires_in=members.seconds(document, "expires_in"),
        locks=members.whole(document, "locks"),
        locked_stores=members.whole(document, "locked_stores"),
        epochs={
            members.text(held, "store"): members.whole(held, "epoch") for held in members.entries(document, "epochs")
        },
        more_epochs=members.flag(document["more_epochs"]),
    )


def stores(after: str | None) -> Callable[[Document], tuple[list[StoreSummary], str | None]]:
    """Make a reader for the page of stores after the token ``after``. It returns the stores, and the next page's token
    (None on the last page).

    The reader refuses a page whose next token is ``after`` again, because the listing would never end.
    """

    def read(document: Document) -> tuple[list[StoreSummary], str | None]:
        found = [
            StoreSummary(
                members.text(entry, "store"),
                members.whole(entry, "handles"),
                members.whole(entry, "revision"),
                None if entry.get("epoch") is None else members.whole(entry, "epoch"),
                session=members.text_or_none(entry, "session"),
                holder=members.text_or_none(entry, "holder"),
                since=None if entry.get("since") is None else members.time(entry["since"]),
                snapshot=None if entry.get("snapshot") is None else snapshot_of(entry["snapshot"]),
                damaged=members.whole(entry, "damaged") if "damaged" in entry else None,
            )
            for entry in members.entries(document, "stores")
        ]
        return found, members.next_page(document, after)

    return read


def snapshot_of(document: Document) -> Snapshot:
    """Read a snapshot of the files of a job."""
    return Snapshot(
        directory=members.text(document, "directory"),
        batch=members.whole(document, "batch"),
        revision=members.whole(document, "revision"),
        intact=members.flag(document["intact"]) if "intact" in document else None,
        taken=members.time(document["taken"]) if document.get("taken") is not None else None,
        epoch=members.whole(document, "epoch") if document.get("epoch") is not None else None,
    )


def status(document: Document) -> Status:
    """Read the status of a replica."""
    return Status(
        replica=members.text(document, "replica"),
        role=members.text(document, "role"),
        leader=members.text_or_none(document, "leader"),
        term=None if document.get("term") is None else members.whole(document, "term"),
        lease_remaining=None
        if document.get("lease_remaining") is None
        else members.seconds(document, "lease_remaining"),
        version=members.text(document, "version"),
        pointers=members.text(document, "pointers"),
        blobs=members.text(document, "blobs"),
        epochs_above=None if document.get("epochs_above") is None else members.whole(document, "epochs_above"),
    )


def rights(document: Document) -> Rights:
    """Read the rights of a client."""
    return Rights(
        members.text_or_none(document, "name"),
        members.texts(document, "reader"),
        members.texts(document, "writer"),
        members.flag(document["admin"]),
    )


def stepped_down(document: Document) -> SteppedDown:
    """Read which replica stepped down, and at which term it had led."""
    return SteppedDown(members.text(document, "replica"), members.whole(document, "term"))


def _check_status(answer: Answer, statuses: tuple[int, ...]) -> None:
    if answer.status not in statuses:
        raise ValueError("not the status of a success here")

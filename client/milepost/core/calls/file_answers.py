"""Readers of the service's answers about the files of a job: files, snapshots, savepoints and credentials."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from email.utils import parsedate_to_datetime

from milepost.core.calls import members
from milepost.core.calls.answers import Reader, epoch, snapshot_of, version, wish
from milepost.core.calls.members import Document
from milepost.core.effects import Answer
from milepost.job_types import BegunBatch, HistoryEntry, JobInfo, JobSummary, StandbyInfo
from milepost.types import (
    Clone,
    DamagedFile,
    FileCredential,
    JobFile,
    KeptSnapshots,
    Process,
    Savepoint,
    Verification,
    WrittenFile,
)
from milepost.wire import Header, parse_digest_header


def kept_snapshots(document: Document) -> KeptSnapshots:
    """Read the snapshots and savepoints of the files of a job."""
    savepoints = [
        Savepoint(members.text(savepoint, "name"), snapshot_of(savepoint))
        for savepoint in members.entries(document, "savepoints")
    ]
    snapshots, passed_over = (
        [snapshot_of(snapshot) for snapshot in members.entries(document, each)] for each in ("snapshots", "passedOver")
    )
    return KeptSnapshots(snapshots, savepoints, passed_over)


def job_info(document: Document) -> JobInfo:
    """Read the description of a job."""
    return JobInfo(
        job=members.text(document, "job"),
        state=members.text(document, "state"),
        epoch=epoch(document),
        expires_in=None if document.get("expires_in") is None else members.seconds(document, "expires_in"),
        standbys=tuple(_standby(each) for each in members.entries(document, "standbys")),
        standby_count=members.whole(document, "standbyCount"),
        kept=kept_snapshots(document),
        handles=members.whole(document, "handles"),
        damaged=members.whole(document, "damaged"),
        now=members.time(document["now"]),
        process=_process(document),
        wish=wish(document),
        begun=tuple(_begun(each) for each in members.entries(document, "begun")) if "begun" in document else (),
    )


def _begun(document: Document) -> BegunBatch:
    return BegunBatch(
        directory=members.text(document, "directory"),
        batch=members.whole(document, "batch"),
        epoch=None if document.get("epoch") is None else members.whole(document, "epoch"),
        since=members.time(document["since"]),
    )


def _process(document: Document) -> Process | None:
    found = document.get("process")
    if found is None:
        return None
    return Process(
        host=members.text_or_none(found, "host"),
        pid=None if found.get("pid") is None else members.whole(found, "pid"),
        application=members.text_or_none(found, "application"),
        ui=members.text_or_none(found, "ui"),
    )


def history(after: str | None) -> Callable[[Document], tuple[list[HistoryEntry], str | None]]:
    """Make a reader for the page of a job's history after the token ``after``. It returns the entries, and the next
    page's token (None on the last page). The first page also has an entry for each stored page that is damaged.
    """

    def read(document: Document) -> tuple[list[HistoryEntry], str | None]:
        damaged = members.entries(document, "corrupt") if after is None else []
        lost = [
            HistoryEntry("damaged", page=members.text(each, "name"), reason=members.text(each, "reason"))
            for each in damaged
        ]
        found = [history_entry(each) for each in members.entries(document, "entries")]
        return [*lost, *found], members.next_page(document, after)

    return read


def history_entry(document: Document) -> HistoryEntry:
    """Read an entry of a job's history."""

    def number(name: str) -> int | None:
        return None if document.get(name) is None else members.whole(document, name)

    return HistoryEntry(
        kind=members.text(document, "kind"),
        at=members.time(document["at"]),
        revision=members.whole(document, "revision"),
        id=members.text_or_none(document, "id"),
        epoch=number("epoch"),
        session=members.text_or_none(document, "session"),
        holder=members.text_or_none(document, "holder"),
        process=_process(document),
        since=None if document.get("since") is None else members.time(document["since"]),
        how=members.text_or_none(document, "how"),
        by=members.text_or_none(document, "by"),
        batch=number("batch"),
        directory=members.text_or_none(document, "directory"),
        replay=members.flag(document.get("replay", False)),
        snapshot=number("snapshot"),
        previous=number("previous"),
        previous_batch=number("previous_batch"),
        savepoint=members.text_or_none(document, "savepoint"),
        source=members.text_or_none(document, "source"),
        files=number("files"),
        bytes=number("bytes"),
        reason=members.text_or_none(document, "reason"),
        partitions=number("partitions"),
        previous_partitions=number("previous_partitions"),
        begun_under=number("begun_under"),
        input_rows=number("input_rows"),
        restored=members.flag(document.get("restored", False)),
        entries=number("entries"),
    )


def jobs(after: str | None) -> Callable[[Document], tuple[list[JobSummary], str | None]]:
    """Make a reader for the page of jobs after the token ``after``. It returns the jobs, and the next page's token
    (None on the last page).

    The reader refuses a page whose next token is ``after`` again, because the listing would never end.
    """

    def read(document: Document) -> tuple[list[JobSummary], str | None]:
        now = members.time(document["now"])
        found = [
            JobSummary(
                job=members.text(entry, "job"),
                state=members.text(entry, "state"),
                epoch=None if entry.get("epoch") is None else epoch(entry),
                standby_count=members.whole(entry, "standbyCount"),
                batch=None if entry.get("batch") is None else snapshot_of(entry["batch"]),
                oldest=None if entry.get("oldest") is None else snapshot_of(entry["oldest"]),
                damaged=members.whole(entry, "damaged"),
                now=now,
                wish=wish(entry),
            )
            for entry in members.entries(document, "jobs")
        ]
        return found, members.next_page(document, after)

    return read


def _standby(document: Document) -> StandbyInfo:
    return StandbyInfo(
        session=members.text(document, "session"),
        holder=members.text_or_none(document, "holder"),
        since=None if document.get("since") is None else members.time(document["since"]),
        expires_in=members.seconds(document, "expires_in"),
        process=_process(document),
    )


def revision(document: Document) -> int:
    """Read the revision of the snapshot in an answer."""
    return members.whole(document, "revision")


def rolled_back(replaced: bool) -> Callable[[Document], int]:
    """Make a reader for the answer to a rollback. If the rollback replaced the state of a handle, the reader refuses an
    answer without the new version of the handle.
    """

    def read(document: Document) -> int:
        if replaced:
            members.text(document, "version")
        return revision(document)

    return read


def verification(document: Document) -> Verification:
    """Read the result of checking the files of a job."""
    return Verification(
        files=members.whole(document, "files"),
        bytes=members.whole(document, "bytes"),
        intact=members.flag(document["intact"]),
        damaged=[
            DamagedFile(members.text(file, "path"), members.text(file, "reason"))
            for file in members.entries(document, "damaged")
        ],
        damaged_count=members.whole(document, "damagedCount"),
        kept=kept_snapshots(document),
    )


def clone(added: bool) -> Callable[[Document], Clone]:
    """Make a reader for the result of a clone: how much was copied from the other job. If the clone added a handle, the
    reader refuses an answer without the version of the handle.
    """

    def read(document: Document) -> Clone:
        if added:
            members.text(document, "version")
        return Clone(members.whole(document, "files"), members.whole(document, "bytes"))

    return read


def written_file(path: str, created: bool) -> Callable[[Document], WrittenFile]:
    """Make a reader for the record of the file that was written at ``path``; it refuses any other file."""

    def read(document: Document) -> WrittenFile:
        if document["path"] != path:
            raise ValueError("another file")
        return WrittenFile(
            path, members.whole(document, "size"), members.sha256(document), members.text(document, "version"), created
        )

    return read


def file_at(path: str) -> Reader[JobFile]:
    """Make a reader for the headers that describe the file at ``path``."""

    def read(answer: Answer) -> JobFile:
        found = version(answer)
        sha256 = parse_digest_header(answer.headers.get(Header.REPR_DIGEST.lower(), ""))
        size, modified = answer.headers["content-length"], answer.headers[Header.LAST_MODIFIED.lower()]
        if sha256 is None:
            raise ValueError("without the digest of the file")
        return JobFile(path, False, int(size), sha256, found, parsedate_to_datetime(modified))

    return read


def made_directory(path: str) -> Callable[[Document], None]:
    """Make a reader for the answer that the directory ``path`` exists now; it refuses any other path."""

    def read(document: Document) -> None:
        if document["path"] != path or not members.flag(document["directory"]):
            raise ValueError("another directory")

    return read


def files(after: str | None) -> Callable[[Document], tuple[list[JobFile], str | None]]:
    """Make a reader for the page of a directory after the token ``after``. It returns the directory's entries, and the
    next page's token (None on the last page).

    The reader refuses a page whose next token is ``after`` again, because the listing would never end.
    """

    def read(document: Document) -> tuple[list[JobFile], str | None]:
        now = members.time(document["now"])
        return [_job_file(entry, now) for entry in members.entries(document, "files")], members.next_page(
            document, after
        )

    return read


def _job_file(document: Document, now: datetime) -> JobFile:
    modified, directory = members.time(document["modified"]), members.flag(document["directory"])
    return JobFile(
        path=members.text(document, "path"),
        directory=directory,
        size=members.whole(document, "size"),
        sha256=None if directory else members.sha256(document),
        version=members.text(document, "version"),
        modified=modified,
        age=max(0.0, (now - modified).total_seconds()),
        epoch=None if document.get("epoch") is None else members.whole(document, "epoch"),
    )


def file_credential(document: Document) -> FileCredential:
    """Read the credential for a store's files."""
    return FileCredential(
        members.whole(document, "epoch"),
        members.text(document, "client_id"),
        members.text(document, "client_secret"),
        members.text(document, "token_path"),
    )

"""Checks, before a driver starts, that the bytes of a job's files exist, and reports damaged files."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum
from typing import Final

from milepost.errors import CheckpointDamaged, DeadlineExceeded, OutcomeUnknown
from milepost.store import StateHandleStore
from milepost.types import Snapshot, Verification

_log = logging.getLogger("milepost.jobs")

VERIFY_SECONDS: Final = 120.0
"""The most seconds that a check of all files of a job may take."""
_NAMED: Final = 5
"""The most damaged files that one message names."""


class IfDamaged(str, Enum):
    """What a driver does when it finds damaged files of its job.

    With ``REFUSE`` it does not start. With ``FALL_BACK`` it rolls the files back to the newest whole snapshot that is
    safe. With ``GO_ON`` it continues: the service never returns damaged bytes, so only a query that needs them fails.
    """

    REFUSE = "refuse"
    FALL_BACK = "fall-back"
    GO_ON = "go-on"


def look(store: StateHandleStore, *, digests: bool) -> Verification | None:
    """Check that the job's present files, and those of each snapshot, exist in full size and, with ``digests``, that
    their bytes are those that were written. Log a warning if only snapshots are damaged.

    Returns None if the check takes too long: the job then starts unchecked, which is safe because the service never
    returns damaged bytes. Raises `Corrupt` if the list of files itself cannot be read.
    """
    try:
        found = store.files.verify(digests=digests, timeout=VERIFY_SECONDS)
    except (DeadlineExceeded, OutcomeUnknown) as error:
        _log.warning("the job's files could not be looked at within %g s, going on without: %s", VERIFY_SECONDS, error)
        return None
    if found.intact and found.damaged_count:
        _log.warning(
            "%s; the files as they are now are whole, so the job goes on, but cannot go back to: %s",
            described(found),
            ", ".join(_described(snapshot) for snapshot in found.kept.snapshots if not snapshot.intact)
            or "a savepoint",
        )
    return found


def described(found: Verification) -> str:
    """Return the number and the names of the damaged files in ``found``, as text for a message."""
    named = [f"{file.path} ({file.reason})" for file in found.damaged[:_NAMED]]
    more = found.damaged_count - len(named)
    return f"{found.damaged_count} of the job's files are damaged: {', '.join(named)}" + (
        f" and {more} more" if more > 0 else ""
    )


def newest_whole(snapshots: Iterable[Snapshot]) -> Snapshot | None:
    """Return the newest snapshot whose files all exist; None if there is none."""
    return max(
        (snapshot for snapshot in snapshots if snapshot.intact), key=lambda snapshot: snapshot.revision, default=None
    )


def refusal(found: Verification, job: str, why: str) -> CheckpointDamaged:
    """Make the error for a ``job`` that must not start because of damaged files; its text contains the reason ``why``,
    a clause, and the command that takes the job back to the newest whole snapshot.
    """
    newest = newest_whole(found.kept.snapshots)
    back = (
        ""
        if newest is None
        else f"Or take the whole job back, with its output: milepost jobs restore {job} {newest.name}. "
    )
    snapshots = [_described(each) for each in found.kept.snapshots if each.intact]
    savepoints = [
        f"{each.name} ({_described(each.snapshot)})" for each in found.kept.savepoints if each.snapshot.intact
    ]
    return CheckpointDamaged(
        f"{described(found)}; {why}. Put the blobs back and start again, or let the job go on as it is (if-damaged: "
        f"go-on), which fails where it needs these files. {back}Whole snapshots: {', '.join(snapshots) or 'none'}, "
        f"whole savepoints: {', '.join(savepoints) or 'none'}",
        [file.path for file in found.damaged],
    )


def go_back(store: StateHandleStore, found: Verification | None, if_damaged: IfDamaged) -> None:
    """If files of the job are damaged and ``if_damaged`` allows it, roll back to the newest whole snapshot of any
    query.

    All batches after the snapshot run again, and Spark may divide their input into batches differently. So this is only
    for jobs whose output Milepost does not publish. Raises `CheckpointDamaged` if the job must not continue, and
    `Fenced`.
    """
    if found is None or found.intact:
        return
    if if_damaged is IfDamaged.GO_ON:
        _log.error("%s; going on all the same, a query that needs them fails", described(found))
        return
    snapshot = newest_whole(found.kept.snapshots)
    if snapshot is None:
        raise refusal(found, store.name, "no snapshot is whole that the job could go back to")
    if if_damaged is IfDamaged.REFUSE:
        why = "no setting says what to do then; with fall-back the job goes back to the newest snapshot"
        raise refusal(found, store.name, why)
    _log.error(
        "%s; going back to %s: the input of all later batches is read again, and divided anew",
        described(found),
        _described(snapshot),
    )
    store.files.roll_back(snapshot.revision)


def _described(snapshot: Snapshot) -> str:
    return f"batch {snapshot.batch} of {snapshot.directory} at revision {snapshot.revision}"

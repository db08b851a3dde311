"""The command `expire`, which expires old batches that a job has published with `Job.files`."""

from __future__ import annotations

from typing import Annotated

import typer

from milepost.cli.acting import changing
from milepost.cli.options import Options, shared
from milepost.cli.output import report
from milepost.errors import InvalidRequest, NoSafeCheckpoint, UnsafeQuery
from milepost.job_record import JOB, JobRecord, decode, published_by_files
from milepost.wire import Code


@shared
def expire(
    context: typer.Context,
    store: Annotated[str, typer.Argument(help="Name of the job's store.")],
    before: Annotated[int, typer.Option(min=0, help="Number of the oldest batch that is kept.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would expire, and change nothing.")] = False,
) -> None:
    """Expire the batches below a number that a job has published by job.files.

    Readers omit them at once. The next driver deletes their files, when it calls job.files. The last published batch
    cannot expire. The command needs the job's epoch, so no driver may lead the job: a driver that leads calls
    job.expire.
    """
    options: Options = context.obj
    with options.client() as client:  # checked before the campaign, which would create a missing store
        known = decode(client.store(store).read(JOB))
        record = _expiring(store, known, before, known.epoch)
    if dry_run:
        _report(context, store, known, record, "would expire")
        return
    with changing(context, store, campaign=True) as opened:
        handle = opened.get_and_lock(JOB)
        known = decode(opened.read(JOB, handle.version))
        record = _expiring(store, known, before, opened.epoch or known.epoch)
        if record.expired > known.expired:
            opened.replace(JOB, handle.version, record.encode(), record.labels, act=record.expiry(known))
    _report(context, store, known, record, "are expired; the next driver deletes their files")


def _expiring(store: str, record: JobRecord, before: int, epoch: int) -> JobRecord:
    """Return a copy of the job record in which the batches below ``before`` are expired, for a write under ``epoch``.

    Raises `UnsafeQuery` if the job has not published by `Job.files`, `NoSafeCheckpoint` if an older release of Milepost
    leads the job, and `InvalidRequest` for a batch that is not published.
    """
    if not published_by_files(record.manifest):
        raise UnsafeQuery(f"{store} has not published by job.files, so nothing of it can expire")
    if record.layered:
        raise NoSafeCheckpoint(f"an older release of milepost leads {store}, and would lose what is expired")
    try:
        return record.expiring(before, epoch)
    except ValueError as error:
        raise InvalidRequest(Code.INVALID_REQUEST, f"{store}: {error}") from error


def _report(context: typer.Context, store: str, known: JobRecord, record: JobRecord, what: str) -> None:
    first, last = known.expired, record.expired - 1
    sentence = f"batches {first} to {last} of {store} {what}"
    if first > last:
        already = f"those below {first} are expired already" if first else "there is none below 0"
        sentence = f"no more batches of {store} expire: {already}"
    report(
        context, sentence, store=store, expired=last - first + 1, kept_from=record.expired, published=record.published
    )

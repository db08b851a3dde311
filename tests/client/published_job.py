"""A job that has published batches, without Spark: its record, its files and their snapshots."""

from __future__ import annotations

import milepost
from milepost.job_record import JOB, RECORD_FILE, JobRecord, decode

LAST, WANTED = 3, 1
"""The last batch of the job, and the one whose snapshot is returned."""
PATIENT = 240.0


def begin(client: milepost.Client, name: str) -> str:
    """Make a job that has published four batches; the name of the snapshot of batch 1."""
    with client.session(holder="driver", ttl=600) as session:
        store = session.store(name)
        record = JobRecord(job="f3" * 16, epoch=store.campaign(PATIENT).epoch)
        version: str | None = None
        for batch in range(LAST + 1):
            store.files.write(f"checkpoint/offsets/{batch}", b"v1")
            store.files.write("checkpoint/state/0/0/state", b"%d" % batch)
            record = record.publishing(batch, {"batch": batch}, record.epoch)
            state = record.encode()
            made = store.add_and_lock(JOB, state) if version is None else store.replace(JOB, version, state)
            version = made.version
            store.files.write(RECORD_FILE, state)
            store.files.write(f"checkpoint/commits/{batch}", b"v1")
        store.resign()
        (found,) = (each.name for each in store.files.snapshots().snapshots if each.batch == WANTED)
        return found


def state_of(client: milepost.Client, name: str) -> int:
    """The batch at which the job is, of which each part must say the same.

    The restore of a caller that was just killed may still be committed. So the parts count only if the record has the
    same version before and after they are read. Each job is restored at most once meanwhile.
    """
    store = client.store(name)
    while True:
        version = store.get(JOB).version
        record = decode(store.read(JOB))
        committed = {int(file.path.rpartition("/")[2]) for file in store.files.list("checkpoint/commits")}
        parts = (record.published, record.manifest, int(store.files.read("checkpoint/state/0/0/state")), max(committed))
        if store.get(JOB).version == version:
            break
    assert parts == (record.published, {"batch": record.published}, record.published, record.published)
    assert committed == {*range(record.published + 1)}
    return record.published

"""Put the operations of a replica together, each from the parts that it needs."""

from __future__ import annotations

from dataclasses import dataclass

from service.operations.cloning import Cloning
from service.operations.epochs import EpochOperations
from service.operations.file_reading import FileReader
from service.operations.handles import HandleOperations
from service.operations.instances import InstanceOperations
from service.operations.leading import LeadingOperations
from service.operations.lookups import StateLookups
from service.operations.publishing import Publisher
from service.operations.reading import StateReader
from service.operations.sessions import SessionOperations
from service.operations.snapshots import SnapshotOperations
from service.operations.states import StateOperations
from service.operations.stores import StoreOperations
from service.operations.trees import TreeOperations
from service.operations.uploads import UploadOperations
from service.operations.verification import Verification
from service.replica.replica import Replica


@dataclass(frozen=True, slots=True)
class Operations:
    """All operations that clients can ask of a replica, grouped by what they work on."""

    snapshots: SnapshotOperations
    epochs: EpochOperations
    files: FileReader
    handles: HandleOperations
    instances: InstanceOperations
    leading: LeadingOperations
    lookups: StateLookups
    publisher: Publisher
    reader: StateReader
    sessions: SessionOperations
    states: StateOperations
    stores: StoreOperations
    trees: TreeOperations
    uploads: UploadOperations


def operations_of(replica: Replica) -> Operations:
    """Return the operations on a replica's journal and blobs. They have no state of their own."""
    journal, blobs, submitter = replica.journal, replica.blobs, replica.submitter
    clock, settings = replica.clock, replica.settings
    uploads = UploadOperations(
        journal, blobs, replica.uploads, submitter, clock, settings.upload_seconds, settings.max_state_bytes
    )
    trees = TreeOperations(
        journal,
        blobs,
        replica.loop_time,
        submitter,
        replica.manifests,
        replica.attempts_at_puts,
        replica.applied_writes,
    )
    verification = Verification(journal, blobs, replica.loop_time)
    cloning = Cloning(journal, blobs, replica.deletions, replica.loop_time, submitter, replica.manifests)
    files = FileReader(journal, blobs, trees)
    reader = StateReader(journal, blobs, settings.download_seconds)
    return Operations(
        snapshots=SnapshotOperations(journal, submitter, replica.manifests, verification, cloning),
        epochs=EpochOperations(journal, replica.epoch_queues, replica.leases, submitter, clock),
        files=files,
        handles=HandleOperations(journal, replica.loop_time, submitter),
        instances=InstanceOperations(journal, replica.instances, replica.loop_time, clock),
        leading=LeadingOperations(journal, replica.step_down),
        lookups=StateLookups(replica.lookups, reader, files, trees),
        publisher=Publisher(
            journal, replica.deletions, submitter, replica.manifests, replica.attempts_at_puts, replica.applied_writes
        ),
        reader=reader,
        sessions=SessionOperations(
            journal,
            replica.leases,
            replica.epoch_queues,
            replica.changes,
            replica.loop_time,
            submitter,
            clock,
        ),
        states=StateOperations(
            journal,
            blobs,
            replica.deletions,
            uploads,
            submitter,
            max_state_bytes=settings.max_state_bytes,
            inline_below=settings.inline_below,
        ),
        stores=StoreOperations(journal, replica.loop_time, submitter),
        trees=trees,
        uploads=uploads,
    )

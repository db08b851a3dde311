"""Create the objects with the operations of a replica, and define the operations on leadership."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal import Journal
from milepost_server.model.requests.base import Request
from milepost_server.operations.cloning import Cloning
from milepost_server.operations.dropping import Dropping
from milepost_server.operations.epochs import EpochOperations
from milepost_server.operations.files import FileReader, Publisher
from milepost_server.operations.handles import HandleOperations
from milepost_server.operations.history import HistoryOperations
from milepost_server.operations.jobs import JobOperations
from milepost_server.operations.lookups import StateLookups
from milepost_server.operations.moving import MovingOperations
from milepost_server.operations.placement import PlacementOperations
from milepost_server.operations.sessions import SessionOperations
from milepost_server.operations.snapshots import SnapshotOperations
from milepost_server.operations.states import StateOperations, StateReader
from milepost_server.operations.stores import StoreOperations
from milepost_server.operations.trees import TreeOperations
from milepost_server.operations.uploads import UploadOperations
from milepost_server.operations.verification import Verification
from milepost_server.operations.watching import MOST_WATCHES, WatchOperations
from milepost_server.operations.wishes import WishOperations
from milepost_server.replica.replica import Replica
from milepost_server.replica.submitter import Reply


@dataclass(frozen=True, slots=True)
class Operations:
    """All operations that clients can request of a replica, grouped by their subject.

    ``perform`` submits a request that needs no other work, and returns its reply (`Submitter.perform`).
    """

    perform: Callable[[Request], Coroutine[Any, Any, Reply]]
    snapshots: SnapshotOperations
    dropping: Dropping
    epochs: EpochOperations
    files: FileReader
    handles: HandleOperations
    history: HistoryOperations
    jobs: JobOperations
    leading: LeadingOperations
    lookups: StateLookups
    moving: MovingOperations
    placement: PlacementOperations
    publisher: Publisher
    reader: StateReader
    sessions: SessionOperations
    states: StateOperations
    stores: StoreOperations
    trees: TreeOperations
    uploads: UploadOperations
    watching: WatchOperations
    wishes: WishOperations


def operations_of(replica: Replica, most_watches: int = MOST_WATCHES) -> Operations:
    """Return the operations on the journal and the blobs of a replica, with ``most_watches`` watches at the same
    time.
    """
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
    )
    verification = Verification(journal, blobs, replica.loop_time)
    cloning = Cloning(
        journal, blobs, replica.deletions, replica.loop_time, submitter, replica.manifests, settings.inline_below
    )
    files = FileReader(journal, blobs, trees)
    reader = StateReader(journal, blobs, settings.download_seconds)
    states = StateOperations(
        journal,
        blobs,
        replica.deletions,
        uploads,
        submitter,
        max_state_bytes=settings.max_state_bytes,
        inline_below=settings.inline_below,
    )
    dropping = Dropping(
        journal, replica.deletions, replica.loop_time, submitter, replica.manifests, settings.linger_seconds
    )
    snapshots = SnapshotOperations(journal, submitter, replica.manifests, verification, cloning, states)
    return Operations(
        perform=submitter.perform,
        snapshots=snapshots,
        dropping=dropping,
        epochs=EpochOperations(journal, replica.epoch_queues, replica.leases, submitter, clock),
        files=files,
        handles=HandleOperations(journal, replica.loop_time, submitter),
        history=HistoryOperations(journal),
        jobs=JobOperations(journal, replica.loop_time, replica.epoch_queues, replica.leases, snapshots),
        leading=LeadingOperations(journal, replica.step_down),
        lookups=StateLookups(replica.lookups, reader, files, trees),
        moving=MovingOperations(journal, blobs, submitter, replica.manifests, dropping, clock),
        placement=PlacementOperations(journal, submitter),
        publisher=Publisher(journal, replica.deletions, submitter, replica.manifests),
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
        states=states,
        stores=StoreOperations(journal, replica.loop_time, submitter),
        trees=trees,
        uploads=uploads,
        watching=WatchOperations(journal, most_watches),
        wishes=WishOperations(journal, replica.epoch_queues, replica.leases, submitter),
    )


class LeadingOperations:
    """The operation on leadership: to make the leader step down."""

    def __init__(self, journal: Journal, step_down: Callable[[], Awaitable[int]]) -> None:
        self._journal = journal
        self._step_down = step_down

    async def step_down(self, term: int | None) -> int:
        """Step down, if this replica leads at ``term``; return the term that ended.

        If ``term`` is None, the term is not checked. A request with a term is safe to repeat, since it can end only the
        leadership of that term. Raises ``fenced`` problems for another term, ``no-leader``, ``outcome-unknown``.
        """
        current = self._journal.term
        if term is not None and term != current:
            raise problem(Code.FENCED, f"term {term} does not lead: term {current} does", extras={"current": current})
        return await self._step_down()

"""The operation that describes a job as a whole: who leads it, who stands by, and which batches it has committed."""

from __future__ import annotations

from typing import Any, Final

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal import Journal
from milepost_server.memory.lookup import Lookup
from milepost_server.model.records import Session, Store
from milepost_server.operations.handles import store_in
from milepost_server.operations.snapshots import SnapshotOperations
from milepost_server.replica.epoch_queues import EpochQueues
from milepost_server.replica.leases import Leases
from milepost_server.replica.submitter import Reply
from milepost_server.rules.answers import epoch_body, epoch_holder, process_body
from milepost_server.rules.decisions import Answer

MOST_STANDBYS: Final = 100
"""The most standbys that a description names; it counts them all."""


class JobOperations:
    """The operation that describes a job: the epoch, the standbys, the snapshots and the damage of its store."""

    def __init__(
        self, journal: Journal, epoch_queues: EpochQueues, leases: Leases, snapshots: SnapshotOperations
    ) -> None:
        self._journal = journal
        self._epoch_queues = epoch_queues
        self._leases = leases
        self._snapshots = snapshots

    async def describe(self, job: str) -> Reply:
        """Return the job that has the store ``job``.

        ``state`` says what became of the driver that held the epoch last: it is ``led`` if the session lives, ``lost``
        if the session expired or ended with the epoch in hand, ``resigned`` if the driver resigned the epoch, and
        ``new`` if no driver ever led.

        Raises problems: ``not-exist`` if there is no such store, ``corrupt`` if its record or the content of its tree
        is unknown, ``storage-unavailable``, ``no-leader``.
        """
        kept = await self._snapshots.kept(job)
        reading = self._journal.read()
        view, state = reading.view, reading.view.state
        standbys = self._epoch_queues.standbys(job)
        if not state.has_store(job) and not standbys:
            raise problem(Code.NOT_EXIST, f"there is no job {job!r}")
        record = store_in(view, job)
        holder = epoch_holder(view, record)
        body = {
            "job": job,
            "state": _state_of(record, holder),
            **epoch_body(view, record),
            "process": process_body(holder),
            "expires_in": None if holder is None else self._leases.expires_in(holder.id),
            "standbys": [self._standby(view, session) for session in standbys[:MOST_STANDBYS]],
            "standbyCount": len(standbys),
            **kept.answer.body,
            "handles": state.count(job),
            "damaged": state.count_unreadable(job),
        }
        return Reply(Answer(body), reading.revision, reading.term)

    def _standby(self, view: Lookup, session: str) -> dict[str, Any]:
        """Return a session that waits for the epoch: its holder, and since when it is open."""
        record = view.session(session)
        known = record if isinstance(record, Session) else None
        return {
            "session": session,
            "holder": known.holder if known else None,
            "process": process_body(known),
            "since": (known.opened or None) if known else None,
            "expires_in": self._leases.expires_in(session),
        }


def _state_of(record: Store, holder: Session | None) -> str:
    if holder is not None:
        return "led"
    if record.epoch_session is not None:
        return "lost"
    return "resigned" if record.epoch else "new"

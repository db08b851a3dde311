"""The operations that describe jobs: who leads each, who stands by, and which batches it has committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from milepost.wire import Code
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.problems import problem
from milepost_server.journal import Journal
from milepost_server.memory.lookup import Lookup
from milepost_server.model.paths import offsets_of
from milepost_server.model.records import Corrupt, Session, Store
from milepost_server.model.trees import Entry, Tree, TreeSnapshot
from milepost_server.operations.handles import store_in
from milepost_server.operations.snapshots import SnapshotOperations, snapshot_body, taken_of
from milepost_server.replica.epoch_queues import EpochQueues
from milepost_server.replica.leases import Leases
from milepost_server.replica.submitter import Reply
from milepost_server.rules.answers import epoch_body, epoch_holder, job_body, job_state, process_body, wish_body
from milepost_server.rules.decisions import Answer
from milepost_server.rules.trees.visibility import visible

MOST_STANDBYS: Final = 100
"""The most standbys that a description names; it counts them all."""


_NO_EPOCH: Final = {"epoch": None, "session": None, "holder": None, "since": None}
"""The epoch of a job whose store's own record cannot be read."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job in the list of jobs.

    ``state`` is as `JobOperations.describe` returns it, or ``damaged`` if the store's own record cannot be read.
    ``epoch`` has the number and the holder of the epoch as JSON, with None for all of them if that record cannot be
    read. ``standbys`` counts the sessions that wait for the epoch, ``damaged`` the records that cannot be read.
    ``wish`` is the wish of a person about the driver, as JSON, None if there is none.
    ``batch`` is the newest snapshot, and ``oldest`` the oldest that is kept of the same query, each with the time at
    which its batch was committed, None if that is unknown. Both are None without a snapshot.
    """

    job: str
    state: str
    epoch: dict[str, Any]
    standbys: int
    batch: tuple[TreeSnapshot, str | None] | None
    oldest: tuple[TreeSnapshot, str | None] | None
    damaged: int
    wish: dict[str, Any] | None = None

    def body(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        return {
            "job": self.job,
            "state": self.state,
            **self.epoch,
            "standbyCount": self.standbys,
            "batch": None if self.batch is None else {**snapshot_body(self.batch[0]), "taken": self.batch[1]},
            "oldest": None if self.oldest is None else {**snapshot_body(self.oldest[0]), "taken": self.oldest[1]},
            "damaged": self.damaged,
            "wish": self.wish,
        }


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of the list of all jobs, as JSON, sorted by name.

    ``next`` is the name after which the next page begins, None on the last page. ``now`` is the time of the service.
    """

    jobs: list[dict[str, Any]]
    next: str | None
    now: str
    term: int


class JobOperations:
    """The operations that describe jobs: the epoch, the standbys, the snapshots and the damage of their stores."""

    def __init__(
        self,
        journal: Journal,
        loop_time: LoopTimeBudget,
        epoch_queues: EpochQueues,
        leases: Leases,
        snapshots: SnapshotOperations,
    ) -> None:
        self._journal = journal
        self._loop_time = loop_time
        self._epoch_queues = epoch_queues
        self._leases = leases
        self._snapshots = snapshots

    def count(self) -> int:
        """Return the number of jobs. Raises ``no-leader`` problems."""
        return len(self._journal.state().jobs)

    async def list_page(
        self, after: str, limit: int, shown: Callable[[str], bool], *, dropped: bool = False
    ) -> JobPage:
        """Return a page of at most ``limit`` jobs, whose names come after ``after``. A job is a store with an epoch or
        a snapshot of its files, or one whose own record or whose record of the tree cannot be read. With ``dropped``,
        the page has the dropped jobs in place of the others.

        ``shown`` says of a job whether the caller may see it; other jobs are skipped as if they did not exist. No
        manifest is loaded, so the time of a batch may be unknown. Raises ``no-leader`` problems.
        """
        found: list[dict[str, Any]] = []
        following: str | None = None

        def add(name: str) -> bool:
            nonlocal following
            if not shown(name):
                return False
            if len(found) == limit:
                following = found[-1]["job"]
                return True
            found.append(self._summary(name).body())
            return False

        def following_of(last: str) -> Iterator[str]:
            return self._journal.state().jobs.after(last, dropped=dropped)

        await self._loop_time.each_after(following_of, after, add)
        reading = self._journal.read()
        return JobPage(found, following, self._journal.context(reading.revision).wall, reading.term)

    async def each(self, most: int, visit: Callable[[JobSummary], object]) -> None:
        """Call ``visit`` with the first ``most`` jobs by name. Other requests are served in between. Raises
        ``no-leader`` problems.
        """
        visited = 0

        def one(name: str) -> bool:
            nonlocal visited
            if visited == most:
                return True
            visited += 1
            visit(self._summary(name))
            return False

        await self._loop_time.each_after(lambda last: self._journal.state().jobs.after(last), "", one)

    def _summary(self, job: str) -> JobSummary:
        state = self._journal.state()
        found, tree = state.store(job), state.tree(job)
        record = found if isinstance(found, Store) else Store(job)
        last = oldest = None
        if isinstance(tree, Tree) and tree.snapshots:
            newest = max(tree.snapshots, key=_order)
            first = min((each for each in tree.snapshots if each.directory == newest.directory), key=_order)
            last, oldest = ((each, taken_of(state, record, tree, each)) for each in (newest, first))
        unreadable = isinstance(found, Corrupt)
        return JobSummary(
            job=job,
            state="damaged" if unreadable else job_state(state, record),
            epoch=_NO_EPOCH if unreadable else epoch_body(state, record),
            standbys=len(self._epoch_queues.standbys(job)),
            batch=last,
            oldest=oldest,
            damaged=state.count_unreadable(job),
            wish=None if unreadable else wish_body(state, record),
        )

    async def describe(self, job: str) -> Reply:
        """Return the job that has the store ``job``.

        ``state`` says what became of the driver that held the epoch last (`job_state`). ``now`` is the time of the
        service, by which the age of a batch is counted.

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
            **job_body(view, record),
            "process": process_body(holder),
            "expires_in": None if holder is None else self._leases.expires_in(holder.id),
            "standbys": [self._standby(view, session) for session in standbys[:MOST_STANDBYS]],
            "standbyCount": len(standbys),
            **kept.answer.body,
            "begun": _begun(view, record),
            "handles": state.count(job),
            "damaged": state.count_unreadable(job),
            "now": self._journal.context(reading.revision).wall,
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


def _begun(view: Lookup, store: Store) -> list[dict[str, Any]]:
    """Return of each query the batch that was begun and not committed, if there is one: its driver is at it, or has
    left it for the next one to run again.
    """
    tree = view.tree(store.name)
    if not isinstance(tree, Tree):
        return []
    newest = {each.directory: each for each in sorted(tree.snapshots, key=_order)}
    begun: list[dict[str, Any]] = []
    for directory, last in newest.items():
        offsets = visible(view, store, tree, offsets_of(directory, last.batch + 1))
        if isinstance(offsets, Entry):
            about = {"epoch": offsets.epoch, "since": offsets.modified}
            begun.append({"directory": directory, "batch": last.batch + 1, **about})
    return begun


def _order(snapshot: TreeSnapshot) -> tuple[int, int]:
    """Return what snapshots are sorted by; those of one revision, as after the rename of a directory, by batch."""
    return snapshot.revision, snapshot.batch

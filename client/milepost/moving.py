"""Moves a job that no driver leads from one cell to another: all that the service has of it, and its last epoch.

docs/decisions/0124 says why the job is in exactly one cell whenever this process, or a cell, is killed.
"""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from milepost.client import Client
from milepost.core import moving
from milepost.core.calls.cells import HERE, asked
from milepost.errors import EpochHeld, InvalidRequest, JobElsewhere, MilepostError, NotExist
from milepost.store import StateHandleStore
from milepost.wire import Code

_SESSION_SECONDS: Final = 60.0
_TRIES: Final = 5


@dataclass(frozen=True)
class JobMove:
    """A move of the job ``job`` from the cell ``source`` to the cell ``target``, made under ``epoch``. ``records``,
    ``blobs`` and ``bytes`` say how much was copied.
    """

    job: str
    source: str
    target: str
    epoch: int
    records: int
    blobs: int
    bytes: int


def move(client: Client, job: str, to: str, *, holder: str | None = None, wait: float = 0.0) -> JobMove | None:
    """Move a job to the cell ``to``; return None if it is there already. A job that is stopped stays stopped.

    The job must be led by no driver: the move waits ``wait`` seconds for the end of one. If the call fails, the job is
    in the old cell, unless the error came after the tombstone: then the next driver, or the next move, finishes the
    move. Raises `EpochHeld` if a driver leads or a session holds a lock, and `InvalidRequest` if there is no such cell.
    """
    there = _cell(client, to)
    for left in reversed(range(_TRIES)):
        here = client.of_job(job)
        if here.cell == to:
            if not _has(here, job):
                raise NotExist(Code.NOT_EXIST, f"there is no job {job!r}")
            return None
        try:
            return _moved(here, there, job, holder, wait)
        except JobElsewhere:  # another mover was faster
            if not left:
                raise
    raise AssertionError


def drop_copy(client: Client, job: str, keep: str, *, holder: str | None = None, wait: float = 0.0) -> JobMove:
    """Drop the copy of a job that another cell has beside the cell ``keep``, and send its drivers on to ``keep``.

    Two cells have one job only if somebody has put old records back into a cell. The copy must be the older one: its
    epoch is below that in ``keep``. If the cell of the copy grants only epochs above a number, since it was restored,
    the job is granted as high an epoch in ``keep`` first. The call waits ``wait`` seconds for the end of a driver that
    leads. Raises `InvalidRequest` if ``keep`` does not have the job, no other cell has it, or the copy is not older,
    and `EpochHeld` as `move` does.
    """
    there = _cell(client, keep)
    if not _has(there, job):
        raise InvalidRequest(Code.INVALID_REQUEST, f"the cell {keep!r} does not have the job {job!r}")
    kept = there.store(job).current_epoch().epoch
    here = next((each for name, each in client.by_cell().items() if name != keep and _has(each, job)), None)
    if here is None:
        raise InvalidRequest(Code.INVALID_REQUEST, f"no cell beside {keep!r} has the job {job!r}: there is no copy")
    copy = here.store(job).current_epoch().epoch
    _check_older(here, there, copy + 1, kept)
    above = here.status().epochs_above or 0
    if above >= kept:
        kept = _raised(there, job, kept, above, holder, wait)
    with here.session(holder, _SESSION_SECONDS) as leaving:
        store = leaving.store(job)
        epoch = store.campaign(wait, if_stopped=True).epoch
        id_, run = uuid.uuid4().hex, store._driver.run
        try:
            _check_older(here, there, epoch, kept)
            run(moving.freeze(store._operations, id_, keep))
            _check_unlocked(store)
        except MilepostError:
            store.resign()
            raise
        run(moving.leave(store._operations, id_))
    return JobMove(job, here.cell, keep, epoch, 0, 0, 0)


def _has(cell: Client, job: str) -> bool:
    return cell._driver.run(asked(cell._caller, job, cell.timeout)).placement == HERE


def _raised(there: Client, job: str, kept: int, above: int, holder: str | None, wait: float) -> int:
    """Have the job, whose epoch is ``kept``, granted one above ``above`` in the cell that keeps it, and return it.
    Raises `InvalidRequest` if the cell would grant a lower one.
    """
    if max(kept, there.status().epochs_above or 0) < above:
        detail = f"the cell of the copy grants only epochs above {above}: restart the replicas of {there.cell!r} with"
        raise InvalidRequest(Code.INVALID_REQUEST, f"{detail} --epochs-above {above} first. Nothing was dropped")
    with there.session(holder, _SESSION_SECONDS) as session:
        store = session.store(job)
        granted = store.campaign(wait, if_stopped=True).epoch
        store.resign()
    return granted


def _check_older(here: Client, there: Client, epoch: int, kept: int) -> None:
    """Raise `InvalidRequest` if the copy, whose next epoch is ``epoch``, is not older than what is kept."""
    if epoch > kept:
        detail = f"the copy in the cell {here.cell!r} is not the older one: its epoch is {epoch - 1}, and in"
        raise InvalidRequest(Code.INVALID_REQUEST, f"{detail} {there.cell!r} it is {kept}. Nothing was dropped")


def _cell(client: Client, name: str) -> Client:
    cells = client.by_cell()
    if name in cells and name:
        return cells[name]
    names = ", ".join(filter(None, cells)) or "none"
    raise InvalidRequest(Code.INVALID_REQUEST, f"there is no cell {name!r}; those of the list are {names}")


def _moved(here: Client, there: Client, job: str, holder: str | None, wait: float) -> JobMove:
    if here.job_info(job).state == "dropped":
        raise NotExist(Code.NOT_EXIST, f"the job {job!r} was dropped, and an epoch for its move would begin it anew")
    to = there.cell
    with (
        here.session(holder, _SESSION_SECONDS) as leaving,
        there.session(holder, _SESSION_SECONDS) as arriving,
    ):
        store = leaving.store(job)
        epoch = store.campaign(wait, if_stopped=True).epoch
        id_, run = uuid.uuid4().hex, store._driver.run
        source, target = store._operations, arriving.store(job)._operations
        try:
            run(moving.freeze(source, id_, to))
            _check_unlocked(store)
            copied = run(moving.copy(source, target, id_, here.cell, _temporary))
        except MilepostError:
            store.resign()
            raise
        seal = run(moving.leave(source, id_))
        run(moving.finish(target, seal))
    return JobMove(job, here.cell, to, epoch, copied.records, copied.blobs, copied.bytes)


def _check_unlocked(store: StateHandleStore) -> None:
    """Raise `EpochHeld` if a session holds a lock: it is of the old cell, so the lock could not be moved."""
    for handle in store.get_all_handles():
        if handle.locks:
            holders = ", ".join(handle.locks)
            detail = f"the sessions {holders} hold locks on {handle.name!r} of {store.name!r}: end them first"
            raise EpochHeld(Code.HELD, detail, extras={"holder": handle.locks[0], "epoch": store.epoch})


def _temporary() -> BinaryIO:
    return cast(BinaryIO, tempfile.TemporaryFile())

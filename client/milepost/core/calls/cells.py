"""Calls to the cell of a job: the deployments side by side are asked which of them has the job.

docs/decisions/0124 argues why no job is begun twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from milepost.core.calls import answers, members
from milepost.core.calls.calls import Caller, Reply
from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.core.calls.replicas import Replicas
from milepost.core.calls.request import JSON_MEDIA_TYPE, Request, call_of, json_body
from milepost.core.cell_list import CellList
from milepost.core.effects import Operation, Sleep, Work
from milepost.errors import (
    AccessDenied,
    CellsDiffer,
    DeadlineExceeded,
    Fenced,
    InvalidRequest,
    JobElsewhere,
    MilepostError,
    NotExist,
    NotSupported,
    Problem,
)
from milepost.operations.handles import FINISH_ARRIVAL, GET_PLACEMENT, PLACE_JOB
from milepost.operations.operation import JOBS
from milepost.types import Placement
from milepost.wire import Code

HERE: Final = "here"
NONE: Final = "none"
MOVED: Final = "moved"
ARRIVING: Final = "arriving"

_STORES: Final = "/v1/stores"
_FIRST_SECONDS: Final = 2.0
"""How long the first question to one cell may take; each further round gives a cell twice the time."""
_LEAST_SECONDS: Final = 0.1

T = TypeVar("T")


class _Known(NamedTuple):
    """The list of cells, and the caller of each. They are replaced together, since threads share them."""

    cells: CellList
    callers: Mapping[str, Caller]


class CellsCaller(Caller):
    """Sends each request about a job to the cell that has the job.

    ``read`` returns the list of cells as it is now; it may block. ``made`` makes the caller of one cell.
    """

    def __init__(self, read: Callable[[], CellList], made: Callable[[Replicas], Caller], timeout: float) -> None:
        self._read = read
        self._made = made
        self._known = self._with_callers(read(), {})
        self._found: dict[str, str] = {}
        super().__init__(Replicas([each for one in self.each for each in one.replicas.addresses]), timeout=timeout)

    @property
    def each(self) -> Sequence[Caller]:
        """The callers of all cells, by the names of the cells."""
        return tuple(self._known.callers.values())

    def call(self, request: Request[T], *, timeout: float | None = None, **others: Any) -> Operation[Reply[T]]:
        """Send ``request`` to the cell of the job that it is about, as `Caller.call` does; finding the cell counts as
        part of the call. Raises `InvalidRequest` for a request that is about no job.
        """
        job = _job_of(request.path)
        if job is None:
            cells = ", ".join(self._known.callers)
            detail = f"there are several cells, {cells}, and this call is about one: make it by Client.of_job(…) or"
            raise InvalidRequest(Code.INVALID_REQUEST, f"{detail} Client.by_cell()")
        seconds, began = self.timeout if timeout is None else timeout, self.clock()
        while True:
            left = max(_LEAST_SECONDS, seconds - (self.clock() - began))
            caller = yield from self.locate(job, ask=False, timeout=left)
            left = max(_LEAST_SECONDS, seconds - (self.clock() - began))
            try:
                return (yield from caller.call(request, timeout=left, **others))
            except JobElsewhere:
                self._found.pop(job, None)
                if self.clock() - began >= seconds:
                    raise

    def locate(
        self, job: str, *, begin: bool = False, ask: bool = True, timeout: float | None = None
    ) -> Operation[Caller]:
        """Return the caller of the cell that has the job. If there is no such job, that of the cell in which it would
        begin; with ``begin``, it then begins there. Without ``ask``, the cell that had the job last is not asked again:
        it refuses what is about a job that was moved since.

        A cell that does not answer is asked again until ``timeout`` seconds (default: the client's) have passed, since
        it may have the job. Raises `CellsDiffer` if a cell has another list of cells and none has the job, or, with
        ``begin``, if two cells have it; and the errors of `Caller.call`.
        """
        deadline = self.clock() + (self.timeout if timeout is None else timeout)
        cells, callers = yield from self._now()
        found = self._found.get(job)
        if not ask and found is not None and found in callers:
            return callers[found]
        first, rounds = found or cells.chosen(job), 0
        silent: dict[str, MilepostError] = {}
        absent: dict[str, Placement] = {}
        before: dict[str, Placement] = {}
        trouble: MilepostError | None = None
        while True:
            for name in sorted(cells.names, key=lambda each: each != first):
                if name in absent:
                    continue
                left = deadline - self.clock()
                if left <= 0:
                    raise _overdue(job, silent, trouble, before)
                try:
                    answer = yield from asked(callers[name], job, min(left, _FIRST_SECONDS * 2**rounds))
                except OUTAGES_OR_DOUBT as error:
                    silent[name] = error
                    continue
                silent.pop(name, None)
                if answer.placement == HERE:
                    if begin:
                        yield from _alone(callers, name, job, deadline)
                    self._found[job] = name
                    return callers[name]
                absent[name] = answer
            if len(absent) == len(cells.names):
                left = max(_LEAST_SECONDS, deadline - self.clock())
                try:
                    if all(each.placement == NONE for each in absent.values()):
                        chosen = callers[cells.chosen(job)]
                        if other := next((each for each in absent.values() if each.cells != cells.names), None):
                            raise _differ(job, cells, other)
                        if not begin:
                            return chosen
                        yield from _placed(chosen, cells, job, left)
                        absent.pop(chosen.cell)  # the job is there now
                        continue
                    if (arrival := _unfinished(absent)) is not None:
                        yield from _finished(callers[arrival.cell], job, arrival.seal, left)
                        absent.pop(arrival.cell)
                        continue
                except (AccessDenied, Fenced, NotExist, *OUTAGES_OR_DOUBT) as error:
                    # what was asked for may have been done, or the job has moved on, or another client finishes its
                    # move: all are asked again
                    trouble = error
                before, absent = absent, {}
            yield Sleep(min(self.pause(rounds, _FIRST_SECONDS), max(0.0, deadline - self.clock())))
            rounds += 1
            known_before = cells
            cells, callers = yield from self._now()
            if cells != known_before:
                silent, absent = {}, {}

    def _now(self) -> Operation[_Known]:
        """Read the list of cells again, and return it with the callers of its cells."""
        read, known = (yield Work(self._read)), self._known
        if read != known.cells:
            self._known, self._found = self._with_callers(read, known.callers), {}
        return self._known

    def _with_callers(self, cells: CellList, old: Mapping[str, Caller]) -> _Known:
        """Return the cells with a caller for each: that in ``old``, if the addresses of the cell stay."""
        found: dict[str, Caller] = {}
        for name, addresses in cells.cells.items():
            replicas = Replicas(addresses)
            known = old.get(name)
            same = known is not None and known.replicas.addresses == replicas.addresses
            found[name] = known if known is not None and same else self._made(replicas)
            found[name].cell = name
        return _Known(cells, found)


def asked(caller: Caller, job: str, seconds: float) -> Operation[Placement]:
    """Ask a cell for a job. Raises `CellsDiffer` if the addresses lead elsewhere."""
    request = Request(*call_of(GET_PLACEMENT, job), answers.document(placement))
    try:
        found = (yield from caller.call(request, timeout=seconds)).value
    except Problem as error:
        if error.code not in (Code.NO_ROUTE, Code.METHOD_NOT_ALLOWED):
            raise
        detail = f"the cell {caller.cell!r} is of a release that knows of no cells"
        raise NotSupported(Code.NOT_SUPPORTED, detail) from error
    if found.cell != caller.cell:
        what = "a deployment that is no cell" if found.cell is None else f"the cell {found.cell!r}"
        raise CellsDiffer(Code.CELLS_DIFFER, f"the addresses of the cell {caller.cell!r} lead to {what}")
    return found


def _alone(callers: Mapping[str, Caller], cell: str, job: str, deadline: float) -> Operation[None]:
    """Ask the other cells whether they have the job as well, which ``cell`` has: old records may have been put back
    into one. A cell that does not answer is passed over, since the job is known to be there. Raises `CellsDiffer`.
    """
    for other in (name for name in callers if name != cell):
        # a job that is moved meanwhile may be seen in both; nobody moves it to and fro as fast
        for each in (other, cell, other):
            left = max(_LEAST_SECONDS, deadline - callers[each].clock())
            try:
                found = yield from asked(callers[each], job, min(left, _FIRST_SECONDS))
            except MilepostError:
                break
            if found.placement != HERE:
                break
        else:
            detail = f"the cells {cell!r} and {other!r} both have the job {job!r}, and one of them is out of date:"
            raise CellsDiffer(Code.CELLS_DIFFER, f"{detail} see docs/cells.md#a-job-in-two-cells")


def _placed(caller: Caller, cells: CellList, job: str, seconds: float) -> Operation[None]:
    body, headers = json_body({"cells": cells.digest}), {"Content-Type": JSON_MEDIA_TYPE}
    yield from caller.call(
        Request(*call_of(PLACE_JOB, job), answers.document(placement), headers, body), timeout=seconds
    )


class _Arrival(NamedTuple):
    """An arrival that is not finished, in the cell ``cell``; ``seal`` is that of the tombstone in the other one."""

    cell: str
    seal: str


def _unfinished(asked: Mapping[str, Placement]) -> _Arrival | None:
    """Return the arrival that a tombstone in another cell names; None if there is none."""
    for old in asked.values():
        new = asked.get(old.other or "")
        if old.placement != MOVED or not old.seal or new is None or new.placement != ARRIVING:
            continue
        if (new.other, new.epoch) == (old.cell, old.epoch):
            return _Arrival(new.cell or "", old.seal)
    return None


def _finished(caller: Caller, job: str, seal: str, seconds: float) -> Operation[None]:
    """Finish a move whose mover has ended after the tombstone."""
    body, headers = json_body({"seal": seal}), {"Content-Type": JSON_MEDIA_TYPE}
    request = Request(*call_of(FINISH_ARRIVAL, job), answers.document(placement), headers, body)
    yield from caller.call(request, timeout=seconds)


def placement(document: members.Document) -> Placement:
    """Read where a job is."""
    return Placement(
        members.text(document, "job"),
        members.text_or_none(document, "cell"),
        members.texts(document, "cells"),
        members.text(document, "placement"),
        members.text_or_none(document, "other"),
        None if document.get("epoch") is None else members.whole(document, "epoch"),
        members.text_or_none(document, "seal"),
    )


def _job_of(path: str) -> str | None:
    """Return the job, or the store, that a path is about."""
    for prefix in (_STORES, JOBS):
        if path.startswith(f"{prefix}/"):
            return path.removeprefix(f"{prefix}/").partition("/")[0].partition("?")[0]
    return None


def _overdue(
    job: str, silent: Mapping[str, MilepostError], trouble: MilepostError | None, last: Mapping[str, Placement]
) -> DeadlineExceeded:
    """Return the error if it is not known in time where a job is: a cell has not answered, or ``trouble`` has kept this
    client from placing the job, or from finishing its move, or by the ``last`` answers it is in no cell.
    """
    cell, error = next(iter(silent.items()), ("", trouble))
    detail = f"it could not be found out in time in which cell the job {job!r} is"
    if cell:
        detail = f"the cell {cell!r} does not answer, and may have the job {job!r}, which no other cell has"
    elif error is None and last:
        preposition = {MOVED: "to", ARRIVING: "from"}
        said = ", ".join(
            f"{name} says {each.placement} {preposition.get(each.placement, '')} {each.other or ''}".rstrip()
            for name, each in sorted(last.items())
        )
        detail = f"no cell has the job {job!r}: {said}; see docs/cells.md#a-job-in-no-cell"
    overdue = DeadlineExceeded(detail if error is None else f"{detail}: {error}")
    overdue.__cause__ = error
    return overdue


def _differ(job: str, cells: CellList, other: Placement) -> CellsDiffer:
    detail = f"no cell has the job {job!r}, and it begins in none: the cell {other.cell!r} has the list of cells"
    return CellsDiffer(
        Code.CELLS_DIFFER,
        f"{detail} {', '.join(other.cells)}, and this client has {', '.join(cells.names)}",
        extras={"cell": other.cell, "cells": list(other.cells)},
    )

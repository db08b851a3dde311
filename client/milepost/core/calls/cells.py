"""Calls to the cell of a job: the deployments side by side are asked which of them has the job.

docs/decisions/0124 argues why no job is begun twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from milepost.core.calls import answers, members
from milepost.core.calls.calls import Caller, Reply
from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.core.calls.replicas import Replicas
from milepost.core.calls.request import JSON_MEDIA_TYPE, Request, call_of, json_body
from milepost.core.cell_list import CellList
from milepost.core.effects import Operation, Sleep, Work
from milepost.errors import CellsDiffer, DeadlineExceeded, InvalidRequest, MilepostError, NotSupported, Problem
from milepost.operations.handles import GET_PLACEMENT, PLACE_JOB
from milepost.operations.operation import JOBS
from milepost.types import Placement
from milepost.wire import Code

_STORES: Final = "/v1/stores"
_FIRST_SECONDS: Final = 2.0
"""How long the first question to one cell may take; each further round gives a cell twice the time."""
_LEAST_SECONDS: Final = 0.1

T = TypeVar("T")


class CellsCaller(Caller):
    """Sends each request about a job to the cell that has the job.

    ``read`` returns the list of cells as it is now; it may block. ``made`` makes the caller of one cell.
    """

    def __init__(self, read: Callable[[], CellList], made: Callable[[Replicas], Caller], timeout: float) -> None:
        self._read = read
        self._made = made
        self._list = read()
        self._callers = self._callers_of(self._list, {})
        self._found: dict[str, str] = {}
        addresses = [address for caller in self._callers.values() for address in caller.replicas.addresses]
        super().__init__(Replicas(addresses), timeout=timeout)

    @property
    def by_cell(self) -> Mapping[str, Caller]:
        """The callers of all cells, by the cell's name."""
        return dict(self._callers)

    def call(self, request: Request[T], *, timeout: float | None = None, **others: Any) -> Operation[Reply[T]]:
        """Send ``request`` to the cell of the job that it is about, as `Caller.call` does; finding the cell counts as
        part of the call. Raises `InvalidRequest` for a request that is about no job.
        """
        job = _job_of(request.path)
        if job is None:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                f"there are several cells, {', '.join(self._callers)}, and this call is about one of them: make it by"
                " Client.of_job(…) or Client.by_cell()",
            )
        seconds, began = self.timeout if timeout is None else timeout, self.clock()
        caller = yield from self.locate(job, timeout=seconds)
        left = max(_LEAST_SECONDS, seconds - (self.clock() - began))
        return (yield from caller.call(request, timeout=left, **others))

    def locate(self, job: str, *, begin: bool = False, timeout: float | None = None) -> Operation[Caller]:
        """Return the caller of the cell that has the job. If there is no such job, that of the cell in which it would
        begin; with ``begin``, it then begins there.

        A cell that does not answer is asked again until ``timeout`` seconds (default: the client's) have passed, since
        it may have the job. Raises `CellsDiffer` if a cell has another list of cells and none has the job, and the
        errors of `Caller.call`.
        """
        deadline = self.clock() + (self.timeout if timeout is None else timeout)
        yield from self._refresh()
        if (known := self._callers.get(self._found.get(job, ""))) is not None:
            return known
        cells, rounds = self._list, 0
        silent: dict[str, MilepostError] = {}
        absent: dict[str, Placement] = {}
        while True:
            for name in sorted(cells.names, key=lambda each: each != cells.chosen(job)):
                if name in absent:
                    continue
                left = deadline - self.clock()
                if left <= 0:
                    raise _overdue(job, silent)
                try:
                    answer = yield from self._ask(name, job, min(left, _FIRST_SECONDS * 2**rounds))
                except OUTAGES_OR_DOUBT as error:
                    silent[name] = error
                    continue
                silent.pop(name, None)
                if answer.is_here:
                    return self._note(job, name)
                if answer.placement != "none":
                    detail = f"the cell {name!r} says {answer.placement!r} of the job {job!r}, which this release"
                    raise NotSupported(Code.NOT_SUPPORTED, f"{detail} does not know")
                absent[name] = answer
            if len(absent) == len(cells.names):
                if other := next((each for each in absent.values() if each.cells != cells.names), None):
                    raise _differ(job, cells, other)
                if not begin:
                    return self._callers[cells.chosen(job)]
                try:
                    yield from self._place(cells, job, max(_LEAST_SECONDS, deadline - self.clock()))
                except OUTAGES_OR_DOUBT as error:
                    silent[cells.chosen(job)] = error
                    del absent[cells.chosen(job)]  # the job may have begun there
                else:
                    return self._note(job, cells.chosen(job))
            yield Sleep(min(self.pause(rounds, _FIRST_SECONDS), max(0.0, deadline - self.clock())))
            rounds += 1
            if (yield from self._refresh()):
                cells, silent, absent = self._list, {}, {}

    def _note(self, job: str, cell: str) -> Caller:
        self._found = {**self._found, job: cell}
        return self._callers[cell]

    def _refresh(self) -> Operation[bool]:
        """Read the list of cells again, and return whether it has changed."""
        read = yield Work(self._read)
        if read == self._list:
            return False
        self._callers, self._list, self._found = self._callers_of(read, self._callers), read, {}
        return True

    def _callers_of(self, cells: CellList, old: Mapping[str, Caller]) -> dict[str, Caller]:
        """Return a caller for each cell, in ``old`` the present ones: a cell whose addresses stay keeps its caller."""
        made = {name: Replicas(addresses) for name, addresses in cells.cells.items()}
        return {
            name: old[name]
            if name in old and old[name].replicas.addresses == replicas.addresses
            else self._made(replicas)
            for name, replicas in made.items()
        }

    def _ask(self, cell: str, job: str, seconds: float) -> Operation[Placement]:
        request = Request(*call_of(GET_PLACEMENT, job), answers.document(_placement))
        try:
            found = (yield from self._callers[cell].call(request, timeout=seconds)).value
        except Problem as error:
            if error.code not in (Code.NO_ROUTE, Code.METHOD_NOT_ALLOWED):
                raise
            detail = f"the cell {cell!r} is of a release that knows of no cells"
            raise NotSupported(Code.NOT_SUPPORTED, detail) from error
        if found.cell != cell:
            what = "a deployment that is no cell" if found.cell is None else f"the cell {found.cell!r}"
            raise CellsDiffer(Code.CELLS_DIFFER, f"the addresses of the cell {cell!r} lead to {what}")
        return found

    def _place(self, cells: CellList, job: str, seconds: float) -> Operation[None]:
        body, headers = json_body({"cells": cells.digest}), {"Content-Type": JSON_MEDIA_TYPE}
        request = Request(*call_of(PLACE_JOB, job), answers.document(_placement), headers, body)
        yield from self._callers[cells.chosen(job)].call(request, timeout=seconds)


def _placement(document: members.Document) -> Placement:
    return Placement(
        members.text(document, "job"),
        members.text_or_none(document, "cell"),
        members.texts(document, "cells"),
        members.text(document, "placement"),
    )


def _job_of(path: str) -> str | None:
    """Return the job, or the store, that a path is about."""
    for prefix in (_STORES, JOBS):
        if path.startswith(f"{prefix}/"):
            return path.removeprefix(f"{prefix}/").partition("/")[0].partition("?")[0]
    return None


def _overdue(job: str, silent: Mapping[str, MilepostError]) -> DeadlineExceeded:
    """Return the error if a cell has not answered in time, so that it is not known where the job is."""
    for name, error in silent.items():
        detail = f"the cell {name!r} does not answer, and may have the job {job!r}, which no other cell has"
        overdue = DeadlineExceeded(f"{detail}: {error}")
        overdue.__cause__ = error
        return overdue
    return DeadlineExceeded(f"the cells could not all be asked for the job {job!r} in time")


def _differ(job: str, cells: CellList, other: Placement) -> CellsDiffer:
    detail = f"no cell has the job {job!r}, and it begins in none: the cell {other.cell!r} has the list of cells"
    return CellsDiffer(
        Code.CELLS_DIFFER,
        f"{detail} {', '.join(other.cells)}, and this client has {', '.join(cells.names)}",
        extras={"cell": other.cell, "cells": list(other.cells)},
    )

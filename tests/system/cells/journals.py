"""What the cells of a trial have committed about a job, read from their journals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from milepost_server.model.history import HistoryPage
from milepost_server.model.moves import MOVED
from milepost_server.model.records import Handle, Store
from milepost_server.model.trees import TreePath
from testbed.server import ServerProcess
from tests.spark.clusters.written import Written

_SECONDS = 120.0


class Journals:
    """The journals of embedded cells, each followed from now on. What is overwritten after the start of a cell, and
    before it is `followed` again, is not seen.
    """

    def __init__(self, cells: Mapping[str, ServerProcess]) -> None:
        self._cells = cells
        self._written = {name: Written(cell.directory / "pointers") for name, cell in cells.items()}

    def ended(self, name: str) -> None:
        """A cell has ended, and is to be started again."""
        self._written[name].put_aside()

    def followed(self, name: str) -> None:
        """A cell runs again: follow what it writes from now on."""
        self._cells[name].wait_for("/leader", deadline=_SECONDS)
        written = self._written[name]
        if not written.followed:
            written.put_aside()
            written.follow()

    def records(self) -> dict[str, list[tuple[str, object]]]:
        """All records that each cell has written, in their order."""
        return {name: list(written.records()) for name, written in self._written.items()}


def wrong(records: Mapping[str, Sequence[tuple[str, object]]], job: str, epochs: Set[int]) -> list[str]:
    """Say in words what must never be committed about a job: an epoch twice, or one below another before it, and a
    write in a cell after the tombstone there. ``epochs`` were acknowledged to drivers, so each must be in a journal.
    """
    found: list[str] = []
    sessions: dict[int, set[str | None]] = {}
    for cell, written in records.items():
        highest = gone = 0
        for key, record in written:
            if isinstance(record, Store) and record.name == job:
                gone = record.cleared if record.move is not None and record.move.phase == MOVED else 0
                sessions.setdefault(record.epoch, set()).add(record.epoch_session)
                if record.epoch < highest:
                    found.append(f"the cell {cell} has epoch {record.epoch} after {highest}")
                highest = record.epoch
            elif gone and key.startswith(f"stores/{job}/") and _newest(record) > gone:
                found.append(f"the cell {cell} commits {key} after its tombstone")
    found += [f"epoch {epoch} is granted twice" for epoch, to in sessions.items() if len(to - {None}) > 1]
    return [*found, *(f"epoch {epoch} is in no journal" for epoch in sorted(epochs - sessions.keys()))]


def _newest(record: object) -> int:
    """The revision of the newest write in a record of a job."""
    match record:
        case Handle():
            return record.changed
        case TreePath():
            return max(entry.created_revision for entry in record.entries)
        case HistoryPage():
            return max(entry.revision for entry in record.entries)
        case _:
            return 0

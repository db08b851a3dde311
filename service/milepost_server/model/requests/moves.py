"""Define the requests by which a job is moved from one cell to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from milepost_server.model.requests.base import Keeper, StoreRequest, fingerprint_of
from milepost_server.model.wishes import Wish


class Departing(msgspec.Struct, frozen=True, gc=False):
    """What the old cell says of a job as a whole: the newest revision of its journal, what is known of the seal of the
    move, the revisions at which the epoch was granted and at which the job was dropped, and the wish about its driver.
    """

    revision: int
    sealed: str = ""
    granted: int = 0
    dropped: int = 0
    wish: Wish | None = None


class MoveRequest(StoreRequest, frozen=True, gc=False):
    """A request about the move ``id``. Repeating it changes nothing, so no record keeps its answer."""

    keeper: ClassVar[Keeper] = Keeper.NONE

    id: str = ""

    def fingerprint(self) -> str:
        return fingerprint_of(type(self).__name__, self.id)


class BeginDeparture(MoveRequest, frozen=True, gc=False):
    """Freeze a job under the epoch that the session holds, since it is moved to the cell ``to``. The leader has drawn
    ``seal`` for the tombstone.
    """

    fenced: ClassVar[bool] = True

    epoch: int | None = None
    to: str = ""
    seal: str = ""


class EndDeparture(MoveRequest, frozen=True, gc=False):
    """Set the tombstone of a frozen job, whose copy is complete in the other cell."""

    fenced: ClassVar[bool] = True

    epoch: int | None = None


class BeginArrival(MoveRequest, frozen=True, gc=False):
    """Begin the copy of a job that is frozen under the epoch ``under`` in the cell ``source``."""

    source: str = ""
    under: int = 0
    departing: Departing = Departing(0)


class DropLeft(StoreRequest, frozen=True, gc=False):
    """Drop records under ``keys`` that a job has left here which is in another cell. Made by the leader itself."""

    by_leader: ClassVar[bool] = True
    keeper: ClassVar[Keeper] = Keeper.NONE

    keys: tuple[str, ...] = ()


class ImportRecords(MoveRequest, frozen=True, gc=False):
    """Write ``records`` of an arriving job, by their keys. Their revisions and blobs are those of this cell. With
    ``complete``, all have been written, and were compared with those of the old cell.
    """

    records: Mapping[str, Any] = {}
    complete: bool = False


class FinishArrival(MoveRequest, frozen=True, gc=False):
    """Let an arriving job be here, since the old cell has its tombstone, in which is the ``seal``. No revision up to
    ``above``, the newest of the copied records, is used by a later change.
    """

    needs_session: ClassVar[bool] = False

    seal: str = ""
    above: int = 0

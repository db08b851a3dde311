"""Define the requests about sessions, and about the deployment as a whole."""

from __future__ import annotations

from typing import ClassVar

from milepost_server.model.processes import Process
from milepost_server.model.requests.base import Keeper, Request, fingerprint_of


class OpenSession(Request, frozen=True, gc=False):
    """Create a session that belongs to ``owner``, or renew the session that lives under this id.

    A renewal without ``process`` leaves the description of the process as it is.
    """

    needs_session: ClassVar[bool] = False
    keeper: ClassVar[Keeper] = Keeper.SESSION

    ttl: float = 0.0
    holder: str = ""
    owner: str = ""
    process: Process | None = None

    def fingerprint(self) -> str:
        of = self.process
        described = () if of is None else (of.host, of.pid, of.application, of.ui)
        return fingerprint_of("OpenSession", self.ttl, self.holder, *described)


class EndSession(Request, frozen=True, gc=False):
    """End a session, as its client asks."""


class ExpireSession(Request, frozen=True, gc=False):
    """End the session that was created at ``created_revision``, whose TTL has passed. Made by the leader itself."""

    by_leader: ClassVar[bool] = True

    created_revision: int = 0


class CreateDeployment(Request, frozen=True, gc=False):
    """Give the deployment the id ``deployment`` if it has none, and make it the cell ``cell`` of the cells ``cells``,
    unless ``cell`` is empty. Made by the leader itself before it serves.
    """

    by_leader: ClassVar[bool] = True

    deployment: str = ""
    cell: str = ""
    cells: tuple[str, ...] = ()

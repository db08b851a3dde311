"""Define what is asked about sessions, and about the deployment as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from milepost_server.model.requests.base import Keeper, Request, fingerprint_of


@dataclass(frozen=True, slots=True)
class OpenSession(Request):
    """Create a session, which belongs to ``owner``, or renew the one that lives under this id."""

    needs_session: ClassVar[bool] = False
    keeper: ClassVar[Keeper] = Keeper.SESSION

    ttl: float = 0.0
    holder: str = ""
    owner: str = ""

    def fingerprint(self) -> str:
        return fingerprint_of("OpenSession", self.ttl, self.holder)


@dataclass(frozen=True, slots=True)
class EndSession(Request):
    """End a session that its client asks to end."""


@dataclass(frozen=True, slots=True)
class ExpireSession(Request):
    """End the session of ``created_revision``, whose deadline has passed; a request of the leader's own."""

    by_leader: ClassVar[bool] = True

    created_revision: int = 0


@dataclass(frozen=True, slots=True)
class CreateDeployment(Request):
    """Give the deployment the id ``deployment`` if it has none, before the leader serves; a request of its own."""

    by_leader: ClassVar[bool] = True

    deployment: str = ""

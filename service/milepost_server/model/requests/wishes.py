"""Define the requests of a person about a job: to stop its driver, to hand over to a standby, and to start it again."""

from __future__ import annotations

from typing import ClassVar

from milepost_server.model.requests.base import StoreRequest, fingerprint_of


class WishRequest(StoreRequest, frozen=True, gc=False):
    """A request about the driver of a job. It needs neither a session nor the epoch, which the driver holds.

    ``who`` and ``reason`` are what the client says of the person and of the cause.
    """

    needs_session: ClassVar[bool] = False

    who: str = ""
    reason: str = ""


class StopJob(WishRequest, frozen=True, gc=False):
    """Ask the driver of a job to resign, and grant no further epoch.

    ``savepoint`` is the name of a savepoint to make of the state after the last batch, empty for none.
    """

    savepoint: str = ""

    def fingerprint(self) -> str:
        return fingerprint_of("StopJob", self.savepoint)


class HandOver(WishRequest, frozen=True, gc=False):
    """Ask the driver of a job to resign, so that a standby leads. ``ending`` is the epoch that shall end, 0 for the
    current one.
    """

    ending: int = 0

    def fingerprint(self) -> str:
        return fingerprint_of("HandOver", self.ending)


class StartJob(WishRequest, frozen=True, gc=False):
    """Take a wish to stop back, so that a driver is granted the next epoch."""

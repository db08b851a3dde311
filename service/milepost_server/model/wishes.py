"""Define the stored wish of a person that the driver of a job stops, or hands over to a standby."""

from __future__ import annotations

from typing import Final

import msgspec

STOP: Final = "stop"
HAND_OVER: Final = "hand-over"


class Wish(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A wish about a job, of the ``kind`` `STOP` or `HAND_OVER`, made at the time of day ``at``.

    ``epoch`` is the epoch whose driver is asked to resign, 0 if no driver led when the wish was made. Once that epoch
    has ended, no driver is asked any more. A wish to stop bars the next epoch all the same, until it is taken back.

    ``by`` is the name of the client's token, empty if the deployment has no tokens. ``who`` and ``reason`` are what the
    client says of the person and of the cause. ``savepoint`` is the name of the savepoint to make of the state after
    the last batch, empty for none.
    """

    kind: str
    epoch: int
    at: str
    by: str = ""
    who: str = ""
    reason: str = ""
    savepoint: str = ""

    @property
    def stops(self) -> bool:
        """Whether this is a wish to stop, which bars the next epoch."""
        return self.kind == STOP

    @property
    def person(self) -> str:
        """Who made the wish, in words."""
        return " as ".join(filter(None, (self.who, self.by))) or "a client without a name"

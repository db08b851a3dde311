"""Until when the servers surely keep a session, by what was asked under it and answered.

The one server that expires sessions does not see what other servers are asked. They tell it whom they heard from when
it pings them, each half tick, which is at most a quarter of a session's timeout; and one of them may stop before it
has told. So an exchange is counted on once another one, sent a quarter of a timeout after its answer, has gone through
that server too. A session that is made or taken up anew is seen by that server itself.
"""

from __future__ import annotations

from collections import deque
from typing import Final

CERTAIN: Final = 0.75
"""Of a session's timeout, from when an exchange was sent: no lease is longer."""

TOLD: Final = 0.25
"""Of a session's timeout: after that whoever answered has told of it."""

EXCHANGES: Final = 8
"""In one timeout of the session."""

_KEPT: Final = 64


class SessionEvidence:
    """The exchanges of one session; all times are monotonic seconds."""

    def __init__(self) -> None:
        self._exchanges: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    def note(self, sent: float, answered: float) -> None:
        """An exchange: not sent before the one time, answered by the other."""
        self._exchanges.append((sent, answered))

    def until(self, sent: float, timeout: float, connected: float) -> float:
        """Until when the session surely lasts if what is sent at ``sent`` goes through, a transaction.

        ``timeout``: of the session. ``connected``: not later than it was made, or taken up by the server that is asked.
        """
        told = sent - TOLD * timeout
        seen = max((begun for begun, answered in self._exchanges if answered <= told), default=connected)
        return min(sent + CERTAIN * timeout, max(seen, connected) + timeout)

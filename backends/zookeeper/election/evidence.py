"""Calculate until when the servers surely keep a session, from the requests of that session that were answered.

The one server that expires sessions does not see what other servers are asked. When it pings them, which it does every
half tick, at most a quarter of a session's timeout, they report whom they heard from; and a server may stop before it
has reported. So an exchange counts once another one, sent a quarter of a timeout after its answer, has gone through
that server too. When a session is made or resumed, the server that expires sessions learns of it directly.
"""

from __future__ import annotations

from collections import deque
from typing import Final

CERTAIN: Final = 0.75
"""No lease is longer than this part of a session's timeout, from when an exchange was sent."""

REPORTED: Final = 0.25
"""After this part of a session's timeout, the server that answered has reported that it heard from the session."""

EXCHANGES: Final = 8
"""There are this many exchanges in one timeout of the session."""

_KEPT: Final = 64


class SessionEvidence:
    """The evidence is the answered exchanges of one session; all times are monotonic seconds."""

    def __init__(self) -> None:
        self._exchanges: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    def note(self, sent: float, answered: float) -> None:
        """Record an exchange that was not sent before ``sent``, and was answered at ``answered``."""
        self._exchanges.append((sent, answered))

    def until(self, sent: float, timeout: float, connected: float) -> float:
        """Return until when the session surely lasts if the transaction that is sent at ``sent`` succeeds.

        ``timeout`` is that of the session. ``connected`` is when the session was made, or resumed by the server that is
        asked, or earlier.
        """
        reported = sent - REPORTED * timeout
        seen = max((begun for begun, answered in self._exchanges if answered <= reported), default=connected)
        return min(sent + CERTAIN * timeout, max(seen, connected) + timeout)

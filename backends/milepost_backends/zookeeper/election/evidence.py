"""Calculate until when ZooKeeper surely keeps a session, from its exchanges: requests that were answered.

Sessions are expired by one server, ZooKeeper's own leader, which does not see the requests that other servers answer.
It pings these servers every half tick, which is at most a quarter of a session's timeout, and they report which
sessions they have heard from. But a server may stop before it has reported. So an exchange counts only if that server
has also carried out a transaction that was sent a quarter of a timeout, or more, after the exchange was answered: by
then it had reported. When a session is made, or is resumed by another server, ZooKeeper's leader learns of it directly.
"""

from __future__ import annotations

from collections import deque
from typing import Final

CERTAIN: Final = 0.75
"""A lease lasts for at most this part of a session's timeout, from when the exchange that renewed it was sent."""

REPORTED: Final = 0.25
"""After this part of a session's timeout, a server that still runs has reported the exchange that it answered."""

EXCHANGES: Final = 8
"""So many exchanges are made in one timeout of the session: by a candidate while it waits, and by a leader."""

_KEPT: Final = 64
"""So many exchanges are remembered, the latest ones."""


class SessionEvidence:
    """The exchanges of one session, which prove when the servers heard from it. All times are monotonic seconds."""

    def __init__(self) -> None:
        self._exchanges: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    def note(self, sent: float, answered: float) -> None:
        """Record an exchange that was sent at ``sent`` or later, and answered at ``answered`` or earlier."""
        self._exchanges.append((sent, answered))

    def until(self, sent: float, timeout: float, connected: float) -> float:
        """Return until when the session surely lasts, provided that the transaction now sent, at ``sent``, succeeds.

        ``timeout`` is that of the session. ``connected`` is a time no later than when the session was made, or resumed
        by the server that is asked now.
        """
        reported = sent - REPORTED * timeout
        heard = max((begun for begun, answered in self._exchanges if answered <= reported), default=connected)
        return min(sent + CERTAIN * timeout, max(heard, connected) + timeout)

"""Two runs as they go: with Milepost, and without."""

from __future__ import annotations

from demo.timeline import (
    BEGAN,
    EVALUATED,
    FAILED,
    FENCED,
    FINISHED,
    HALTED,
    KILLED,
    LEADS,
    PAUSED,
    PUBLISHED,
    WOKEN,
    Event,
)

WITH_MILEPOST = [
    Event(10.0, "A", LEADS, epoch=1),
    Event(11.0, "A", BEGAN, batch=0),
    Event(12.0, "A", PUBLISHED, batch=0),
    Event(12.5, "A", BEGAN, batch=1),
    Event(13.0, "A", HALTED, batch=1),
    Event(13.5, "A", PAUSED),
    Event(18.0, "C", LEADS, epoch=2),
    Event(19.0, "C", BEGAN, batch=1),
    Event(20.0, "C", PUBLISHED, batch=1),
    Event(21.0, "A", WOKEN),
    Event(21.5, "A", FENCED, detail="Fenced"),
    Event(22.0, "C", KILLED),
    Event(26.0, "B", LEADS, epoch=3),
    Event(27.0, "B", BEGAN, batch=1),
    Event(27.5, "B", EVALUATED, batch=1),
    Event(28.0, "B", BEGAN, batch=2),
    Event(29.0, "B", PUBLISHED, batch=2),
    Event(29.5, "B", FINISHED),
]
PLAIN = [
    Event(10.0, "A", LEADS),
    Event(11.0, "A", BEGAN, batch=0),
    Event(11.5, "A", HALTED, batch=0),
    Event(12.0, "A", PAUSED),
    Event(17.0, "B", LEADS),
    Event(18.0, "B", BEGAN, batch=0),
    Event(19.0, "B", PUBLISHED, batch=0),
    Event(20.0, "A", WOKEN),
    Event(21.0, "A", PUBLISHED, batch=0),
    Event(21.5, "A", FAILED, detail="[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update"),
    Event(22.0, "B", KILLED),
    Event(27.0, "C", LEADS),
    Event(28.0, "C", BEGAN, batch=0),
    Event(29.0, "C", PUBLISHED, batch=0),
    Event(29.5, "C", FINISHED),
]

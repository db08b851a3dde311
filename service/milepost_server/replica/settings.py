"""The settings of a replica, in one place. They are passed as an argument to the objects that need them."""

from __future__ import annotations

from dataclasses import dataclass, field

from milepost.wire import HEARTBEAT_SECONDS
from milepost_server.journal import JournalSettings
from milepost_server.model.records import KEPT_KEYS_SECONDS

IDLE_SECONDS = 30.0
FILE_IDLE_SECONDS = 1800.0
"""How many seconds the sender of a file's bytes may be silent.

Spark keeps a file of state open from the first row that changes the state to the end of the task, and writes to it
every 64 KiB or so; a log file is open only for a moment. A task that writes nothing to its file for half an hour counts
as dead. The resources of silent bodies are limited. If a new body needs room, the body whose sender was silent for
longest is cut.
"""
INLINE_BELOW = 4096
MOST_INLINE = 32 * 1024
"""The upper limit of ``Settings.inline_below`` in bytes, so that many records fit into one commit."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a replica. Times are in seconds, sizes in bytes.

    ``request_seconds``: how long a write may wait for the storage before it is answered with an error.

    ``blob_seconds``: how long one step of the blob store may take.

    ``idle_seconds``: how long a client may send nothing inside of a request; ``file_idle_seconds``: inside of the bytes
    of a file, which a Spark task keeps open while it works.

    ``linger_seconds``: how long a replaced blob is kept for readers that are still reading it.

    ``collect_after_seconds``: how old a blob that no record names must be before it is deleted.

    ``stand_back_seconds``: how long a replica that could not take the journal over lets others try.

    ``step_down_seconds``: how long a replica that was asked to step down waits for another to lead. A candidate on a
    busy machine may need seconds to begin to lead; without a candidate, no replica leads during this time.

    ``resign_seconds``: how long a replica that resigns waits for requests in flight.

    ``max_state_bytes``: the largest size of a state; None if Milepost sets no limit.

    ``inline_below``: a state, or a file of a tree, with fewer bytes is stored in its record, and has no blob.

    ``compact_from``: the least number of records of files that are compacted into a manifest.

    ``compact_after_seconds``: how long a file's record must be unchanged before it is compacted into a manifest.

    ``upload_seconds``: how long an upload may wait to be used, and how long the URL to put its bytes is valid.

    ``download_seconds``: how long the URL that a reader is redirected to is valid.

    ``heartbeat_seconds``: how long a stream of events may be silent before the client is sent its place.

    The other settings are the intervals of the leader's background tasks.
    """

    request_seconds: float = 20.0
    blob_seconds: float = 30.0
    idle_seconds: float = IDLE_SECONDS
    file_idle_seconds: float = FILE_IDLE_SECONDS
    linger_seconds: float = 60.0
    collect_after_seconds: float = 3600.0
    collect_interval_seconds: float = 600.0
    expire_interval_seconds: float = 0.25
    maintenance_interval_seconds: float = 30.0
    deletion_interval_seconds: float = 1.0
    resign_seconds: float = 10.0
    stand_back_seconds: float = 5.0
    step_down_seconds: float = 10.0
    max_state_bytes: int | None = None
    inline_below: int = INLINE_BELOW
    compact_from: int = 512
    compact_after_seconds: float = KEPT_KEYS_SECONDS
    upload_seconds: float = 900.0
    download_seconds: float = 300.0
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    journal: JournalSettings = field(default_factory=JournalSettings)

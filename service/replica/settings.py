"""Settings, in one place and handed down from there. Nothing reads them from a global."""

from __future__ import annotations

from dataclasses import dataclass, field

from service.journal import JournalSettings

IDLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How a replica works. Times in seconds, sizes in bytes.

    ``upload_seconds``: how long an upload may wait for the handle that takes it, and the URL to put its bytes is good.
    ``download_seconds``: how long the URL is good that a reader is sent to.
    ``linger_seconds``: how long replaced blobs stay for readers on the way. ``collect_after_seconds``: how old a
    blob that nothing names must be before it is collected. ``max_state_bytes``: the largest state, None for no
    limit of Milepost's own. ``request_seconds``: how long a write may wait for the storage before it is answered
    with an error. ``stand_back_seconds``: how long who could not take the journal over lets others try.
    ``blob_seconds``: how long one step of the blob store may take. ``idle_seconds``: how long a sender inside a request
    may send nothing.
    """

    request_seconds: float = 20.0
    blob_seconds: float = 30.0
    idle_seconds: float = IDLE_SECONDS
    linger_seconds: float = 60.0
    collect_after_seconds: float = 3600.0
    collect_interval_seconds: float = 600.0
    expire_interval_seconds: float = 0.25
    tidy_interval_seconds: float = 30.0
    deletion_interval_seconds: float = 1.0
    resign_seconds: float = 10.0
    stand_back_seconds: float = 5.0
    max_state_bytes: int | None = None
    upload_seconds: float = 900.0
    download_seconds: float = 300.0
    journal: JournalSettings = field(default_factory=JournalSettings)

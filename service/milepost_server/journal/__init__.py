"""The journal package keeps all records in one order: group commit, in-doubt commits and take-over.

It is the only caller of a pointer store, and `Journal` is its interface for the rest of the service. A `Journal` takes
over the stored records (`loading`), remembers what was committed (`memory`), admits requests (`admission`), commits
them in groups (`commit`), and finds out what became of commits whose outcome is in doubt (`in_doubt`).
"""

from milepost_server.journal.events import EventsGone, LatestEvents, Place, Watch
from milepost_server.journal.interface import JournalObserver, JournalSettings
from milepost_server.journal.job_watch import JobWatch, watch_job
from milepost_server.journal.journal import Journal, Reading
from milepost_server.journal.lease import LeadershipLost, NotTakenOver
from milepost_server.journal.pending import PendingRequest, Served

__all__ = [
    "LatestEvents",
    "EventsGone",
    "Place",
    "Watch",
    "JobWatch",
    "watch_job",
    "Journal",
    "JournalObserver",
    "JournalSettings",
    "LeadershipLost",
    "NotTakenOver",
    "Reading",
    "Served",
    "PendingRequest",
]

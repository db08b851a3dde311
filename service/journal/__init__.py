"""The journal: group commit, settling and take-over. The only caller of a pointer store.

`Journal` is what the service talks to. It takes a journal over (`loading`), keeps what was committed in `memory`,
commits what is admitted in groups (`admission`, `groups`, `pipeline`), and settles what is in doubt (`settlement`,
which judges by `settling` and puts the store right by `restoring`).
"""

from service.journal.journal import Journal, Reading
from service.journal.lease import LeadershipLost, NotTakenOver
from service.journal.observer import JournalObserver
from service.journal.pending import PendingRequest, Served
from service.journal.settings import JournalSettings

__all__ = [
    "Journal",
    "JournalObserver",
    "JournalSettings",
    "LeadershipLost",
    "NotTakenOver",
    "Reading",
    "Served",
    "PendingRequest",
]

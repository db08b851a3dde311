"""The journal: group commit, settling and take-over. The only caller of a pointer store.

`Journal` is what the service talks to; `groups` folds requests into one atomic write, `settling` decides what
became of the groups in doubt, `ages` turns ages into revisions.
"""

from service.journal.journal import Journal, JournalSettings, LeadershipLost, NotTakenOver, Reading
from service.journal.pending import PendingRequest, Served

__all__ = ["Journal", "JournalSettings", "LeadershipLost", "NotTakenOver", "Reading", "Served", "PendingRequest"]

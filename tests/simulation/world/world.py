"""A world of one deployment, and what is seen of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from milepost_backends.contract import Change, Head
from tests.simulation.callers.answers import Answers
from tests.simulation.callers.tree_answers import TreeAnswers
from tests.simulation.checks.chronicle import Chronicle
from tests.simulation.checks.inspection import Inspection
from tests.simulation.checks.tree_chronicle import TreeChronicle
from tests.simulation.checks.upload_inspection import UploadInspection
from tests.simulation.plan import Plan
from tests.simulation.trace import Trace
from tests.simulation.world.deployment import Deployment
from tests.simulation.world.loop import VirtualLoop


class World(Deployment):
    """Everything that an episode takes place in."""

    def __init__(self, plan: Plan) -> None:
        loop = VirtualLoop()  # type: ignore[abstract]  # what the service never calls is left out
        super().__init__(plan, loop, Trace(loop.time), Counter())
        most_uploads = plan.settings.journal.most_uploads
        self.chronicle = Chronicle(loop.time, self._leading, self.trace, most_uploads)
        self.answers = Answers(self.chronicle, self.blobs)
        self.inspection = Inspection(self.chronicle, self.blobs)
        self.upload_inspection = UploadInspection(self.chronicle, self.blobs)
        self.trees = TreeChronicle(self.chronicle, self.blobs, self.tally)
        self.tree_answers = TreeAnswers(self.chronicle, self.trees, self.answers)

    def taken_over(self, by: str, head: Head) -> None:
        """See `Witness`."""
        super().taken_over(by, head)
        self.chronicle.taken_over(by, head)

    def committed(self, by: str, head: Head, changes: Sequence[Change], revision: int) -> None:
        """See `Witness`."""
        super().committed(by, head, changes, revision)
        changed = self.chronicle.committed(by, head, changes, revision)
        self.trees.committed(head.revision, revision, changed)
        self.inspection.committed(changed)
        self.upload_inspection.committed(changed)

    def _leading(self, by: str) -> bool:
        return any(process.name == by and process.replica.leadership is not None for process in self.places)

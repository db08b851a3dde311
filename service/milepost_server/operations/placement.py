"""The operations by which a client finds out in which cell a job is, and begins it in one."""

from __future__ import annotations

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal import Journal
from milepost_server.memory.view import View
from milepost_server.model.records import DEPLOYMENT_KEY, Corrupt
from milepost_server.model.requests.base import StoreRequest
from milepost_server.replica.submitter import Reply, Submitter
from milepost_server.rules.answers import placement_body
from milepost_server.rules.decisions import Answer


class PlacementOperations:
    """The operations on the placement of a job among the cells."""

    def __init__(self, journal: Journal, submitter: Submitter) -> None:
        self._journal = journal
        self._submitter = submitter

    def placement(self, job: str) -> Reply:
        """Return whether this cell knows the job, with the cell's name and its list of cells. Raises a ``corrupt``
        problem if that cannot be said, since a record is damaged.
        """
        reading = self._journal.read()
        for record in (reading.view.get(DEPLOYMENT_KEY), reading.view.store(job)):
            if isinstance(record, Corrupt):
                raise problem(Code.CORRUPT, f"the record of {record.name!r} is damaged: {record.reason}")
        return Reply(Answer(placement_body(reading.view, job)), reading.revision, reading.term)

    async def after(self, request: StoreRequest) -> Reply:
        """Make a request that places or moves a job, and return where the job is then. Raises the problems of
        `Submitter.perform`, such as ``cells-differ``.
        """
        return self.shown(await self._submitter.perform(request), request.store_name)

    def shown(self, reply: Reply, job: str) -> Reply:
        """Return a reply that says where the job is."""
        return replace(reply, answer=replace(reply.answer, body=placement_body(View(self._journal.state()), job)))

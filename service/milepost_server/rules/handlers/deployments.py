"""Give the deployment its id, which tells its blobs from those of others in the same place."""

from __future__ import annotations

from typing import Final

from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers
from milepost_server.rules.memory.view import View
from milepost_server.rules.records import DEPLOYMENT_KEY, Corrupt, Deployment
from milepost_server.rules.requests import CreateDeployment


def found(view: View, request: CreateDeployment, _: DecisionContext) -> Decision:
    """Give the deployment its id, once and for all.

    A record that cannot be read stays as it is: it holds an older id, or that of a newer release.
    """
    record = view.get(DEPLOYMENT_KEY)
    if isinstance(record, Deployment):
        return Accepted(Answer({"deployment": record.id}))
    answer = Answer({"deployment": request.deployment})
    if isinstance(record, Corrupt):
        return Accepted(answer)
    return Accepted(answer, {DEPLOYMENT_KEY: Deployment(request.deployment)})


HANDLERS: Final[Handlers] = {
    CreateDeployment: found,
}

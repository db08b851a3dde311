"""Open, end and expire sessions, and give the deployment its id and its place among cells.

Keepalives change no stored record, so there is no rule for them.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.history import SESSION_ENDED, SESSION_EXPIRED
from milepost_server.model.records import DEPLOYMENT_KEY, Corrupt, Deployment, Session, session_key
from milepost_server.model.requests.sessions import CreateDeployment, EndSession, ExpireSession, OpenSession
from milepost_server.rules import guards, history, replays
from milepost_server.rules.answers import session_body
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers, Refused


def open_session(view: View, request: OpenSession, context: DecisionContext) -> Decision:
    """Create a session, or renew a living session with the same id. An id may be reused once its ended session is
    forgotten.
    """
    dead = guards.session_lives(view, request.session, context)
    if dead is None:
        return _renewed(view, request, context)
    if dead.code is not Code.SESSION_UNKNOWN:
        return dead
    session = Session(
        id=request.session,
        ttl=request.ttl,
        holder=request.holder,
        created_revision=context.revision,
        owner=request.owner,
        opened=context.wall,
        process=request.process,
    )
    answer = Answer(session_body(session), created=True)
    return replays.accepted(session, request, context, answer)


def _renewed(view: View, request: OpenSession, context: DecisionContext) -> Decision:
    old = view.session(request.session)
    assert isinstance(old, Session)
    renewed = replace(old, ttl=request.ttl, holder=request.holder, process=request.process or old.process)
    if renewed == old:
        return Accepted(Answer(session_body(old)))
    return replays.accepted(renewed, request, context, Answer(session_body(renewed)))


def end_session(view: View, request: EndSession, context: DecisionContext) -> Decision:
    """End a session, as its client asks: its locks end, and its epochs become free to campaign for."""
    session = view.acting_session(request.session)
    entered = history.session_ended(view, session, SESSION_ENDED, context, request.attempt.name)
    return replays.accepted(replace(session, ended=context.revision), request, context, Answer(), changes=entered)


def expire_session(view: View, request: ExpireSession, context: DecisionContext) -> Decision:
    """End a session whose deadline has passed, if the id still belongs to the same session."""
    session = view.session(request.session)
    if not isinstance(session, Session) or session.ended or session.created_revision != request.created_revision:
        return Accepted(Answer())
    entered = history.session_ended(view, session, SESSION_EXPIRED, context)
    return Accepted(Answer(), {session_key(session.id): replace(session, ended=context.revision), **entered})


def create_deployment(view: View, request: CreateDeployment, _: DecisionContext) -> Decision:
    """Give the deployment its id, once and for all, and its place among the cells.

    The name of a cell stays, and its list of cells only grows: the decision of where a job begins depends on both. A
    list that is not longer is not taken. A record that cannot be read stays unchanged, since it may contain the id: it
    may be damaged, or of a newer release.
    """
    record = view.get(DEPLOYMENT_KEY)
    if isinstance(record, Corrupt):
        return Accepted(Answer({"deployment": request.deployment}))
    old = record if isinstance(record, Deployment) else Deployment(request.deployment)
    answer = Answer({"deployment": old.id})
    if request.cell and old.cell not in ("", request.cell):
        return Refused(Code.CELLS_DIFFER, f"this deployment is the cell {old.cell!r}, and not {request.cell!r}")
    grown = {*request.cells} >= {*old.cells}
    new = replace(old, cell=request.cell, cells=request.cells) if request.cell and grown else old
    return Accepted(answer) if new == record else Accepted(answer, {DEPLOYMENT_KEY: new})


HANDLERS: Final[Handlers] = {
    OpenSession: open_session,
    EndSession: end_session,
    ExpireSession: expire_session,
    CreateDeployment: create_deployment,
}

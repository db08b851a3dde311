"""Opening a session: its answer stays true, whatever happens after its commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.errors import Unavailable
from milepost.wire import Code, Outcome
from milepost_backends.contract import Commit
from milepost_server.model.requests.base import Attempt
from milepost_server.replica.submitter import Caller
from tests.support.network.faults import RealCommit
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio


async def lose_lease_after(running: Rig, caller: Caller, ttl: float) -> None:
    """Open a session, and let the lease be in doubt from the moment of its commit on."""

    async def act(commit: RealCommit) -> Commit:
        end = await commit()
        running.election.in_doubt = True
        return end

    running.pointers.disturb(act)
    reply = await running.operations.sessions.open(caller, ttl, "me")
    assert reply.answer.body == {"session": caller.session, "ttl": ttl, "holder": "me"}


async def test_a_session_whose_creation_was_committed_is_reported_without_a_lease(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await lose_lease_after(running, Caller(Attempt("a")), 60.0)
        running.election.in_doubt = False
        assert (await running.operations.sessions.get("a")).answer.body["ttl"] == 60.0


async def test_a_renewal_that_was_committed_is_not_reported_as_not_applied(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await running.operations.sessions.open(Caller(Attempt("a")), 60.0, "me")
        with pytest.raises(Unavailable) as caught:
            await lose_lease_after(running, Caller(Attempt("a")), 90.0)
        assert (caught.value.code, caught.value.outcome) == (Code.NO_LEADER, Outcome.APPLIED)
        running.election.in_doubt = False
        assert (await running.operations.sessions.get("a")).answer.body["ttl"] == 90.0


async def test_a_renewal_that_changed_nothing_is_reported_as_not_applied(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await running.operations.sessions.open(Caller(Attempt("a")), 60.0, "me")
        running.election.in_doubt = True
        with pytest.raises(Unavailable) as caught:
            await running.operations.sessions.open(Caller(Attempt("a")), 60.0, "me")
        assert (caught.value.code, caught.value.outcome) == (Code.NO_LEADER, Outcome.NOT_APPLIED)

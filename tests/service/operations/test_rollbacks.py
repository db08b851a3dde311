"""A rollback with a replace, whose outcome is unknown for a while: then both were committed, or neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.errors import OutcomeUnknown
from milepost_backends.contract import StorageUnavailable
from milepost_server.model.requests.base import Attempt
from milepost_server.operations.snapshots import Replacement
from milepost_server.replica.submitter import Caller
from tests.service.acting import STORE, actor
from tests.support.files import put, read
from tests.support.network.faults import lose_answer, lose_request
from tests.support.servers.replicas import embedded, rig
from tests.support.states import stored_states
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

SHORT_SECONDS = 0.2
"""How long a request waits while its outcome cannot be found out: nothing that is awaited ends sooner."""


@pytest.mark.parametrize("applied", [False, True], ids=["not-applied", "applied"])
async def test_in_doubt_neither_blob_goes_and_then_the_one_that_is_not_needed(tmp_path: Path, applied: bool) -> None:
    async with rig(embedded(tmp_path)) as running:
        driver = await actor(running, "a")
        epoch = await driver.campaign()
        for batch in range(2):
            await put(running, "state", epoch, b"state %d" % batch, inline=True)
            await put(running, f"commits/{batch}", epoch, b"v1", inline=True)
        snapshots = (await running.operations.snapshots.kept(STORE)).answer.body["snapshots"]
        old = await driver.under(epoch=epoch).add("job", b"batch 1")
        replica, term = running.replica, running.replica.journal.term
        usual = replica.submitter.request_seconds
        running.pointers.disturb(lose_answer() if applied else lose_request())
        running.pointers.take_overs.from_now_on(StorageUnavailable("by the test"))
        replica.submitter.request_seconds = SHORT_SECONDS
        with pytest.raises(OutcomeUnknown):
            await running.operations.snapshots.roll_back(
                Caller(Attempt("a"), epoch),
                STORE,
                snapshots[0]["revision"],
                (),
                Replacement("job", old.version, b"batch 0"),
            )
        assert running.blobs.discarded == []
        replica.submitter.request_seconds = usual
        running.pointers.take_overs.heal()

        async def resolved() -> bool:
            return replica.leads and replica.journal.term > term

        await until(resolved)
        await running.emptied_trash()
        both = (b"batch 0", b"state 0") if applied else (b"batch 1", b"state 1")
        assert (await driver.read("job"), await read(running, "state")) == both
        first, second = running.blobs.put_keys
        assert running.blobs.discarded == [first if applied else second]
        assert set(await stored_states(running.replica.blobs)) == {second if applied else first}

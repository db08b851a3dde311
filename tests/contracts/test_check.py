"""A check of stores, over every backend: it finds that each works, founds nothing, and leaves what is there alone."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from milepost_backends.contract import BlobStore, Election, PointerStore
from milepost_backends.embedded.election import EmbeddedElection
from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_backends.local.blobs import LocalBlobs
from milepost_server.check import Finding, Verdict, try_stores
from tests.contracts.journals import ROOT, put, writes
from tests.contracts.places import Place
from tests.contracts.streams import keys, read, stream

pytestmark = pytest.mark.anyio


async def found(
    directory: Path,
    pointers: PointerStore | None = None,
    election: Election | None = None,
    blobs: BlobStore | None = None,
) -> dict[str, Finding]:
    """What is found of the stores; those that are not given are embedded ones."""
    tried = try_stores(
        pointers or EmbeddedPointers(directory / "pointers"),
        election or EmbeddedElection(directory / "pointers", "http://127.0.0.1:9"),
        blobs or LocalBlobs(directory / "blobs"),
    )
    findings = {finding.store: finding async for finding in tried}
    assert list(findings) == ["pointers", "election", "blobs"]
    assert {finding.verdict for finding in findings.values()} == {Verdict.OK}, findings
    return findings


async def test_pointers_are_read_and_nothing_is_founded(pointers: Place[PointerStore], tmp_path: Path) -> None:
    assert "no deployment was founded" in (await found(tmp_path, pointers.build()))["pointers"].what
    async with pointers.opened() as store:
        assert list(await store.journals()) == []
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        if pointers.backend.shared:
            assert "a deployment are there" in (await found(tmp_path, pointers.build()))["pointers"].what
        assert await store.confirm(head)
        await put(store, head, writes(a=b"2"))


async def test_an_election_is_asked_who_leads_and_goes_on(elections: Place[Election], tmp_path: Path) -> None:
    assert (
        "no replica leads" in (await found(tmp_path, election=elections.build("http://127.0.0.1:1")))["election"].what
    )
    if not elections.backend.shared:
        return
    async with AsyncExitStack() as stack:
        election = await stack.enter_async_context(elections.opened("http://127.0.0.1:2"))
        leadership = await election.campaign()
        asked = await found(tmp_path, election=elections.build("http://127.0.0.1:1"))
        assert "http://127.0.0.1:2 leads" in asked["election"].what
        assert leadership.remaining(0.0) > 0


async def test_blobs_are_tried_out_and_left_as_they_were(blobs: Place[BlobStore], tmp_path: Path) -> None:
    async with blobs.opened() as store:
        await store.put("0123456789ab/flights/000000000001/blob", stream(b"here"))
        before = await keys(store)
        what = (await found(tmp_path, blobs=blobs.build()))["blobs"].what
        assert ("signed requests work" in what) == (await store.sign_get("blob", 60.0) is not None)
        assert await keys(store) == before
        assert await read(store, before[0]) == b"here"

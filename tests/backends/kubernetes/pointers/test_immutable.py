"""ConfigMaps that somebody made immutable: only their metadata can be written then. Groups go on."""

from __future__ import annotations

import pytest

from milepost_backends.contract import Change
from milepost_backends.kubernetes.configmaps.memory import CAP
from tests.backends.kubernetes.places import LAYOUT, Outsider, opened, spare_is_there
from tests.contracts.journals import ROOT, put, records, taken_over, writes
from tests.support.servers.kubernetes import Site

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

FIRST, SECOND = LAYOUT.segment(1), LAYOUT.segment(2)
FULL = [Change("full", b"x" * (CAP * 7 // 8))]
FROZEN = {"immutable": True}


@pytest.mark.parametrize(
    "content", [{}, {"data": {"a": "theirs"}}, {"binaryData": {"theirs": "AAA="}}], ids=["plain", "edited", "binary"]
)
async def test_a_last_segment_is_sealed_as_it_is_and_groups_go_on_in_the_next_one(
    site: Site, outsider: Outsider, content: dict[str, object]
) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1", b=b"1"))
        outsider.patch(FIRST, {**FROZEN, **content})
        for number in range(3):
            head = await put(store, head, writes(a=b"%d" % number))
        assert await records(store, head) == {"a": b"2", "b": b"1"}
        if "data" not in content:
            assert outsider.states()[:2] == ["sealed", "active"]
    async with opened(site.address()) as other:
        assert (await taken_over(other))[1] == {"a": b"2", "b": b"1"}


@pytest.mark.parametrize("edited", [False, True])
async def test_what_a_controller_holds_by_a_finalizer_is_made_anew_all_the_same(
    site: Site, outsider: Outsider, edited: bool
) -> None:
    """Deleted, it would stay as it is, altered, until somebody takes the finalizer out. Alone that does no harm."""
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1", b=b"1"))
        outsider.patch(FIRST, {**held, **FROZEN, "data": {"a": "theirs"}} if edited else held)
        outsider.delete(FIRST)
        head = await put(store, head, writes(c=b"1"))
        head = await put(store, head, writes(c=b"2"))
        assert await records(store, head) == {"a": b"1", "b": b"1", "c": b"2"}
    async with opened(site.address()) as other:
        assert (await taken_over(other))[1] == {"a": b"1", "b": b"1", "c": b"2"}
    if not edited:
        outsider.patch(FIRST, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("content", [{}, {"binaryData": {"theirs": "AAA="}}], ids=["plain", "binary"])
async def test_a_journal_whose_last_segment_is_immutable_is_taken_over(
    site: Site, outsider: Outsider, content: dict[str, object]
) -> None:
    async with opened(site.address()) as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1"))
    outsider.patch(FIRST, {**FROZEN, **content})
    async with opened(site.address()) as store:
        head, found = await taken_over(store)
        assert found == {"a": b"1"}
        head = await put(store, head, writes(b=b"2"))
        assert (await taken_over(store))[1] == {"a": b"1", "b": b"2"}


async def test_an_empty_next_segment_is_made_anew_or_passed_over(site: Site, outsider: Outsider) -> None:
    """Either the check does that, or the group that meets it first."""
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await spare_is_there(store)
        outsider.patch(SECOND, FROZEN)
        await store.check()
        await spare_is_there(store)
        assert "immutable" not in outsider.get(SECOND)
        outsider.patch(SECOND, FROZEN)
        head = await put(store, head, FULL)
        head = await put(store, head, writes(a=b"2"))
        assert set(await records(store, head)) == {"a", "full"}
    async with opened(site.address()) as other:
        assert (await taken_over(other))[1]["a"] == b"2"


@pytest.mark.parametrize("edited", [False, True])
async def test_a_sealed_segment_keeps_counting_and_is_swept_in_the_end(
    site: Site, outsider: Outsider, edited: bool
) -> None:
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        await spare_is_there(store)
        head = await put(store, head, [*FULL, *writes(a=b"1")])
        outsider.patch(FIRST, {**FROZEN, **({"data": {"a": "theirs"}} if edited else {})})
        await store.check()
        assert outsider.get(FIRST)["data"]["a"] == "1"
        for number in range(12):
            head = await put(store, head, [Change("full", b"%d" % (number % 10) * (CAP * 7 // 8))])
        assert (await records(store, head))["a"] == b"1"
        await store.check()
        assert FIRST not in outsider.segments()


async def test_an_empty_next_segment_that_holds_somebody_elses_entries_for_good_is_taken_over(
    site: Site, outsider: Outsider
) -> None:
    """The last one was sealed, so that the next one is where to fence."""
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        await spare_is_there(store)
        await put(store, head, [*FULL, *writes(a=b"1")])
    outsider.patch(SECOND, {**FROZEN, "data": {"theirs": "1"}})
    for number in range(2):
        async with opened(site.address()) as store:
            head, found = await taken_over(store)
            assert found.keys() == {"a", "full", "theirs"}
            await put(store, head, writes(a=b"%d" % number))


@pytest.mark.parametrize("name", [LAYOUT.witness, LAYOUT.deployment_marker])
async def test_the_witness_and_the_founding_mark_are_still_written(site: Site, outsider: Outsider, name: str) -> None:
    async with opened(site.address()) as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1"))
        outsider.patch(name, {**FROZEN, "data": {"theirs": "1"}, "binaryData": {"theirs-too": "AAA="}})
        head = await put(store, await store.take_over(ROOT), writes(a=b"2"))
        assert outsider.head(name)["term"] == head.term
        await store.check()
        await put(store, head, writes(a=b"3"))

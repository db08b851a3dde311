"""ConfigMaps that somebody else edits, wipes or deletes: a leader puts them right, and nobody guesses."""

from __future__ import annotations

import logging

import pytest

from milepost_backends.contract import Change, Head, JournalDamaged, Refusal
from milepost_backends.kubernetes.configmaps.memory import CAP
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from tests.backends.kubernetes.places import LAYOUT, Outsider, backup, opened, spare_is_there, wipe
from tests.contracts.journals import ROOT, put, records, refused, taken_over, writes
from tests.support.servers.kubernetes import Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

ACTIVE = LAYOUT.segment(1)
HELD = {"full": b"x" * (CAP * 7 // 8), "a": b"2", "c": b"3", "d": b"4"}
FULL = [Change("full", b"x" * (CAP * 7 // 8))]


async def two_segments(store: KubernetesPointers) -> Head:
    """A sealed segment with most of it, and a last one."""
    head = await store.take_over(ROOT)
    await spare_is_there(store)
    head = await put(store, head, [*FULL, *writes(a=b"1", c=b"3")])
    return await put(store, head, writes(a=b"2", d=b"4"))


async def test_labels_annotations_owners_and_finalizers_of_others_stay(site: Site, outsider: Outsider) -> None:
    outsider.create("owner")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": outsider.get("owner")["metadata"]["uid"]}
    labels = {"team": "a"}
    added = {
        "labels": labels,
        "annotations": {"note": "b"},
        "ownerReferences": [owner],
        "finalizers": ["example.com/held"],
    }
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        outsider.patch(ACTIVE, {"metadata": added})
        for number in range(3):
            head = await put(store, head, writes(a=b"%d" % number))
        metadata = outsider.get(ACTIVE)["metadata"]
        assert metadata["labels"].items() >= labels.items()
        assert metadata["annotations"]["note"] == "b"
        assert metadata["ownerReferences"] == [owner]
        assert metadata["finalizers"] == ["example.com/held"]
        assert (await taken_over(store))[1] == {"a": b"2"}
    outsider.patch(ACTIVE, {"metadata": {"finalizers": None}})


async def test_what_had_a_segment_deleted_does_not_have_it_deleted_again(site: Site, outsider: Outsider) -> None:
    """An owner that is gone is one reason, a finalizer would hold what is made anew the next time."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "7f0e6d0e-0000-4000-8000-000000000000"}
    added = {"labels": {"team": "a"}, "ownerReferences": [owner], "finalizers": ["example.com/held"]}
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        outsider.patch(ACTIVE, {"metadata": added})
        head = await put(store, head, writes(a=b"2"))
        outsider.patch(ACTIVE, {"metadata": {"finalizers": None}})
        outsider.delete(ACTIVE)
        await store.check()
        metadata = outsider.get(ACTIVE)["metadata"]
        assert metadata["labels"]["team"] == "a"
        assert not {"ownerReferences", "finalizers"} & metadata.keys()
        assert (await taken_over(store))[1] == {"a": b"2"}


async def test_the_tracking_of_fields_does_not_grow(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as store:
        await put(store, await store.take_over(ROOT), writes(**{f"k{number}": b"1" for number in range(50)}))
        assert len(str(outsider.get(ACTIVE)["metadata"].get("managedFields"))) < 500


@pytest.mark.parametrize("change", [{"a": "theirs"}, {"a": None}, {"more": "theirs"}])
async def test_records_that_somebody_edits_under_a_leader_are_put_right(
    site: Site, outsider: Outsider, caplog: pytest.LogCaptureFixture, change: dict[str, str | None]
) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1", b=b"2"))
        outsider.patch(ACTIVE, {"data": change})
        with caplog.at_level(logging.WARNING):
            await put(store, head, writes(b=b"3"))
        assert ACTIVE in caplog.text
        assert next(iter(change)) in caplog.text
        assert (await taken_over(store))[1] == {"a": b"1", "b": b"3"}


async def test_a_segment_that_is_wiped_under_a_leader_is_put_right(
    site: Site, outsider: Outsider, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await spare_is_there(store)
        wipe(outsider, ACTIVE)
        with pytest.raises(JournalDamaged, match=ACTIVE):
            async with opened(site.address()) as other:
                await other.take_over(ROOT)
        with caplog.at_level(logging.WARNING):
            head = await put(store, head, writes(b=b"2"))
        assert ACTIVE in caplog.text
        assert await store.confirm(head)
        assert (await taken_over(store))[1] == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("noticed_by", ["group", "check"])
@pytest.mark.parametrize("copy", ["older", "empty"])
async def test_an_older_copy_that_is_restored_under_a_leader_is_put_right(
    site: Site, outsider: Outsider, copy: str, noticed_by: str
) -> None:
    """Somebody applies yesterday's dump: taken for the work of a successor, it would undo groups."""
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await spare_is_there(store)
        saved = backup(outsider, ACTIVE if copy == "older" else LAYOUT.segment(2))
        head = await put(store, head, writes(a=b"2", b=b"2"))
        outsider.put(ACTIVE, saved)
        if noticed_by == "check":
            await store.check()
            assert outsider.head(ACTIVE)["revision"] == head.revision
        head = await put(store, head, writes(c=b"3"))
        assert await store.confirm(head)
        assert (await taken_over(store))[1] == {"a": b"2", "b": b"2", "c": b"3"}


async def test_a_segment_that_is_deleted_under_a_leader_is_put_back(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        outsider.delete(ACTIVE)
        head = await put(store, head, writes(b=b"2"))
        assert await store.confirm(head)
        assert (await taken_over(store))[1] == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("harm", ["wipe", "delete"])
async def test_a_deposed_leader_puts_nothing_right(site: Site, outsider: Outsider, harm: str) -> None:
    """What it remembers lacks the groups of its successor, which no look at the segment tells."""
    async with opened(site.address()) as older, opened(site.address()) as leader:
        old = await put(older, await older.take_over(ROOT), writes(a=b"1"))
        new = await put(leader, await leader.take_over(ROOT), writes(a=b"2"))
        if harm == "wipe":
            wipe(outsider, ACTIVE)
        else:
            outsider.delete(ACTIVE)
        assert refused(await older.commit(old, writes(late=b"1"), old.revision + 5)) is Refusal.HEAD_MOVED
        with pytest.raises(JournalDamaged):
            await older.take_over(ROOT)
        await put(leader, new, writes(b=b"3"))
        assert (await taken_over(leader))[1] == {"a": b"2", "b": b"3"}


@pytest.mark.parametrize("harm", ["edit", "wipe", "delete", "label"])
@pytest.mark.parametrize("number", [1, 2])
async def test_a_check_puts_right_what_no_group_would_meet(
    site: Site, outsider: Outsider, harm: str, number: int
) -> None:
    """It looks at sealed segments, and at the last one while no group comes."""
    name = LAYOUT.segment(number)
    async with opened(site.address(), check_seconds=0.05) as store:
        head = await two_segments(store)
        meant = outsider.get(name)
        if harm == "edit":
            outsider.patch(name, {"data": {"full": "theirs"}})
        elif harm == "label":
            outsider.patch(name, {"metadata": {"labels": {"team": "a"}}})
        elif harm == "wipe":
            wipe(outsider, name)
        else:
            outsider.delete(name)

        async def is_right() -> bool:
            found = outsider.all().get(name)
            if found is None or found.get("data") != meant["data"]:
                return False
            return bool(found["metadata"]["annotations"] == meant["metadata"]["annotations"])

        await until(is_right)
        assert outsider.get(name)["metadata"]["labels"].get("team") == ("a" if harm == "label" else None)
        head = await put(store, head, writes(b=b"3"))
        assert await records(store, head) == {**HELD, "b": b"3"}
    async with opened(site.address()) as other:
        assert (await taken_over(other))[1] == {**HELD, "b": b"3"}


@pytest.mark.parametrize("number", [1, 2])
async def test_what_is_deleted_while_nobody_leads_is_reported_and_can_be_brought_back(
    site: Site, outsider: Outsider, number: int
) -> None:
    name = LAYOUT.segment(number)
    async with opened(site.address()) as store:
        await two_segments(store)
    saved = backup(outsider, name)
    outsider.delete(name)
    async with opened(site.address()) as store:
        with pytest.raises(JournalDamaged, match=name):
            await store.take_over(ROOT)
        outsider.create(name, **saved)
        assert (await taken_over(store))[1] == HELD


async def test_a_garbled_entry_is_one_damaged_record_and_hides_the_older_copy(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as store:
        await two_segments(store)
    outsider.patch(LAYOUT.segment(2), {"data": {"a": "!garbage", "b": "!base64\n?", "c": "!", "not_ours": "1"}})
    damaged = {**HELD, "a": b"!garbage", "b": b"!base64\n?", "c": b"!"}
    async with opened(site.address()) as store:
        head, found = await taken_over(store)
        assert found == damaged
        await put(store, head, writes(a=b"5", b=None, c=b"6"))
        assert (await taken_over(store))[1] == {**HELD, "a": b"5", "c": b"6"}


async def test_what_is_not_ours_is_never_touched(site: Site, outsider: Outsider) -> None:
    labels = {"milepost/deployment": "milepost"}
    outsider.create("milepost-config", data={"a": "1"})
    outsider.create(LAYOUT.segment(7), data={"a": "1"})
    outsider.create("milepost-labelled", metadata={"labels": labels}, data={"a": "1"})
    outsider.create(LAYOUT.prefix + "-7", metadata={"labels": LAYOUT.labels}, data={"a": "1"})
    before = outsider.all()
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        for number in range(5):
            head = await put(store, head, [Change("full", b"%d" % number * (CAP * 7 // 8))])
        await store.check()
        assert list(await store.journals()) == [ROOT]
        head, _ = await taken_over(store)
        assert head.term == 2
    after = outsider.all()
    assert {name: after[name] for name in before} == before


async def test_two_deployments_in_one_namespace_are_apart(site: Site) -> None:
    async with opened(site.address(name="one")) as one, opened(site.address(name="one-two")) as two:
        await put(one, await one.take_over(ROOT), writes(a=b"1"))
        assert list(await two.journals()) == []
        assert (await taken_over(two))[1] == {}
        assert (await taken_over(one))[1] == {"a": b"1"}

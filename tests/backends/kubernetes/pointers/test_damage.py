"""What somebody did to a journal's ConfigMaps while nobody led: it is named, and only an owner's word ends it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from milepost_backends.contract import Head, JournalDamaged
from milepost_backends.kubernetes.configmaps.objects import HEAD
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from tests.backends.kubernetes.places import LAYOUT, Outsider, backup, opened, spare_is_there, wipe
from tests.backends.kubernetes.pointers.test_foreign import FULL
from tests.contracts.journals import ROOT, put, taken_over, writes
from tests.support.servers.kubernetes import Site

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

FIRST, LAST, SPARE = (LAYOUT.segment(number) for number in (1, 2, 3))
STAMPS = (LAYOUT.witness, LAYOUT.deployment_marker)


async def left_behind(site: Site) -> Head:
    """A sealed segment, a last one and an empty next one, that nobody leads."""
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        await spare_is_there(store)
        head = await put(store, head, [*FULL, *writes(a=b"1", c=b"1")])
        head = await put(store, head, writes(a=b"2"))
        await spare_is_there(store)
        return head


async def refused_by(site: Site, **arguments: Any) -> JournalDamaged:
    """The damage that keeps everybody from leading."""
    store = KubernetesPointers(site.address(), timeout=60.0, **arguments)
    await store.open()
    try:
        with pytest.raises(JournalDamaged) as raised:
            await store.take_over(ROOT)
    finally:
        await store.close()
    return raised.value


def altered(outsider: Outsider, name: str, old: str, new: str) -> None:
    """Change one letter of the head."""
    text = outsider.get(name)["metadata"]["annotations"][HEAD]
    assert old in text
    outsider.patch(name, {"metadata": {"annotations": {HEAD: text.replace(old, new, 1)}}})


@pytest.mark.parametrize(
    ("old", "new"), [('"revision":', '"revision":1'), ('"first":1', '"first":2'), ('"digest":"', '"digest":"1')]
)
@pytest.mark.parametrize("name", [FIRST, LAST])
async def test_a_head_in_which_anything_was_altered_is_no_head(
    site: Site, outsider: Outsider, name: str, old: str, new: str
) -> None:
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        await spare_is_there(store)
        head = await put(store, head, [*FULL, *writes(a=b"1")])
        await store.commit(head, writes(a=b"2"), head.revision + 1, digest="1-" + "2" * 32)
    if '"digest"' in old and name == FIRST:
        old, new = '"entries":"', '"entries":"1'
    altered(outsider, name, old, new)
    damage = await refused_by(site)
    assert name in str(damage)
    assert damage.loss is not None


async def test_a_head_of_another_segment_is_no_head(site: Site, outsider: Outsider) -> None:
    await left_behind(site)
    outsider.put(LAST, backup(outsider, FIRST))
    assert LAST in str(await refused_by(site))


@pytest.mark.parametrize("stamp", STAMPS)
async def test_an_older_copy_of_the_same_term_is_refused(site: Site, outsider: Outsider, stamp: str) -> None:
    """The witness tells; the deployment marker tells only where the copy is of an older term."""
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(epoch=b"1"))
        saved = backup(outsider, FIRST)
        if stamp == LAYOUT.deployment_marker:
            head = await store.take_over(ROOT)
        await put(store, head, writes(epoch=b"2"))
    if stamp == LAYOUT.deployment_marker:
        outsider.delete(LAYOUT.witness)
    outsider.put(FIRST, saved)
    damage = await refused_by(site)
    assert "older copy" in str(damage)
    assert damage.loss is not None
    store = KubernetesPointers(site.address(), timeout=60.0, accept_loss=[damage.loss])
    await store.open()
    try:
        head, found = await taken_over(store)
        assert found == {"epoch": b"1"}
        assert head.revision > 1000
        await put(store, head, writes(epoch=b"3"))
    finally:
        await store.close()
    outsider.put(FIRST, saved)
    assert (await refused_by(site, accept_loss=[damage.loss])).loss != damage.loss


@pytest.mark.parametrize("all_of_it", [False, True])
async def test_what_was_founded_once_is_not_founded_anew(site: Site, outsider: Outsider, all_of_it: bool) -> None:
    """Everything that carries a label of ours is deleted, by who prunes; a replica that never saw it starts then."""
    before = await left_behind(site)
    assert not outsider.get(LAYOUT.deployment_marker)["metadata"].get("labels")
    for name, item in outsider.all().items():
        assert not [label for label in item["metadata"].get("labels", {}) if not label.startswith("milepost/")]
        if "milepost/deployment" in item["metadata"].get("labels", {}):
            outsider.delete(name)
    damage = await refused_by(site)
    assert LAYOUT.deployment_marker in str(damage)
    if all_of_it:
        outsider.delete(LAYOUT.deployment_marker)
    loss = [] if all_of_it else [str(damage.loss)]
    store = KubernetesPointers(site.address(), timeout=60.0, accept_loss=loss)
    await store.open()
    try:
        head, found = await taken_over(store)
        assert found == {}
        assert (head.term > before.term) is not all_of_it
        await put(store, head, writes(a=b"1"))
        assert (await taken_over(store))[1] == {"a": b"1"}
    finally:
        await store.close()


@pytest.mark.parametrize("harm", ["garble", "delete", "wipe"])
@pytest.mark.parametrize("name", [FIRST, LAST])
async def test_a_segment_that_is_damaged_is_named_and_an_owner_goes_on_without_it(
    site: Site, outsider: Outsider, name: str, harm: str
) -> None:
    before = await left_behind(site)
    if harm == "garble":
        altered(outsider, name, '"schema":', '"schema":9')
    elif harm == "wipe":
        wipe(outsider, name)
    else:
        outsider.delete(name)
    damage = await refused_by(site)
    assert name in str(damage)
    assert damage.loss is not None
    assert f"--accept-loss {damage.loss}" in str(damage)
    assert (await refused_by(site)).loss == damage.loss
    assert (await refused_by(site, accept_loss=["00000000"])).loss == damage.loss
    store = KubernetesPointers(site.address(), timeout=60.0, accept_loss=[damage.loss])
    await store.open()
    try:
        head, found = await taken_over(store)
        assert head.term == before.term + 1
        assert head.revision > before.revision
        found.pop("theirs", None)
        whole = {"a": b"2", "c": b"1", "full": FULL[0].value}
        left = {FIRST: {"a": b"2"}, LAST: {**whole, "a": b"1"}}[name]
        assert found == (whole if harm == "garble" else left)
        await put(store, head, writes(d=b"3"))
    finally:
        await store.close()
    async with opened(site.address()) as other:
        _, found = await taken_over(other)
        assert found["d"] == b"3"


@pytest.mark.parametrize("harm", ["garble", "wipe", "delete", "empty"])
@pytest.mark.parametrize("name", [*STAMPS, SPARE])
async def test_what_holds_no_record_is_named_and_made_anew(
    site: Site, outsider: Outsider, caplog: pytest.LogCaptureFixture, name: str, harm: str
) -> None:
    await left_behind(site)
    if harm == "garble":
        altered(outsider, name, '"schema":', '"schema":9')
    elif harm == "empty":
        outsider.put(name, {})
    elif harm == "wipe" and name != SPARE:
        wipe(outsider, name)
    else:
        outsider.delete(name)
    async with opened(site.address()) as store:
        with caplog.at_level(logging.INFO):
            head, found = await taken_over(store)
        assert found["a"] == b"2"
        assert name in caplog.text or name == SPARE or harm == "delete"
        await put(store, head, writes(a=b"3"))
        await store.check()
        if name != SPARE:
            assert outsider.head(name)["term"] == head.term


@pytest.mark.parametrize(("name", "key"), [(FIRST, "c"), (LAST, "a")])
async def test_entries_that_were_altered_are_named_by_their_segment_to_everybody(
    site: Site, outsider: Outsider, caplog: pytest.LogCaptureFixture, name: str, key: str
) -> None:
    """Until a group is written over them: the leader that looked first may have led no further."""
    await left_behind(site)
    outsider.patch(name, {"data": {key: "theirs"}})
    for _ in range(2):
        caplog.clear()
        async with opened(site.address()) as store:
            with caplog.at_level(logging.ERROR):
                assert (await taken_over(store))[1][key] == b"theirs"
            assert f"another program altered the entries of the ConfigMap {name}" in caplog.text

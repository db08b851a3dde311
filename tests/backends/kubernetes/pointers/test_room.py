"""What the API server does not permit, or alters: making a ConfigMap, deleting one, or writing it as it is sent.

Groups go on within bounds, what removes goes on longest, and nothing is acknowledged that does not stand there.
"""

from __future__ import annotations

import logging

import pytest

from milepost_backends.contract import Change, Done, Head, Refusal, StorageFull, StorageUnavailable
from milepost_backends.kubernetes.configmaps.memory import CAP
from milepost_backends.kubernetes.pointers import write as kubernetes_write
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from testbed.kubernetes.admin import NEEDED, Rules
from tests.backends.kubernetes.places import LAYOUT, Outsider, memory_of, opened, spare_is_there
from tests.contracts.journals import ROOT, put, records, refused, taken_over, writes
from tests.support.servers.kubernetes import Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

FAST = {"bytes_per_second": "100000000"}
SPARE = LAYOUT.segment(2)


def without(site: Site, verb: str) -> Site:
    """The same place for an account that lacks one right on ConfigMaps."""
    rules: Rules = [
        {**rule, "verbs": [each for each in rule["verbs"] if each != verb or "configmaps" not in rule["resources"]]}
        for rule in NEEDED
    ]
    return Site(site.api, site.namespace, site.api.service_account(site.namespace, rules, name=f"no-{verb}"))


def altering(site: Site, change: str) -> None:
    """Have the API server alter each ConfigMap of this namespace as it is written, as a policy or a webhook may."""
    path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"
    name = f"alters-{site.namespace}"
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}}}
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"]}]
    policy = {
        "matchConstraints": {"resourceRules": rules},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[JSONPatch{{{change}}}]"}}],
    }
    site.api.admin.ask("POST", f"{path}ies", {"metadata": {"name": name}, "spec": policy})
    binding = {"policyName": name, "matchResources": where}
    site.api.admin.ask("POST", f"{path}ybindings", {"metadata": {"name": name}, "spec": binding})


def limit(site: Site) -> None:
    """Let no further ConfigMap be made in this namespace. The state is written by hand: no controller runs to count."""
    path = f"/api/v1/namespaces/{site.namespace}/resourcequotas"
    hard = {"hard": {"configmaps": "1"}}
    quota = site.api.admin.ask("POST", path, {"metadata": {"name": "few"}, "spec": hard})
    quota["status"] = {**hard, "used": {"configmaps": "1"}}
    site.api.admin.ask("PUT", f"{path}/few/status", quota)


async def filled(store: KubernetesPointers, head: Head, size: int = 6000) -> tuple[Head, int, Refusal]:
    """Commit groups until one is refused; give the head, how many were committed, and why no more were."""
    for number in range(400):
        end = await store.commit(head, [Change(f"k{number}", b"x" * size)], head.revision + 1)
        if not isinstance(end, Done):
            return head, number, refused(end)
        head = end.head
    raise AssertionError("it takes everything")


@pytest.mark.parametrize("why", ["quota", "rights", "in the way"])
async def test_while_no_segment_can_be_made_the_last_one_takes_more_and_removals_go_on_after_that(
    site: Site, outsider: Outsider, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(site.address(**FAST)) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await spare_is_there(store)
    outsider.delete(SPARE)
    if why == "in the way":
        outsider.create(SPARE, data={"theirs": "1"})
    elif why == "quota":
        limit(site)
    place = without(site, "create") if why == "rights" else site
    async with opened(place.address(**FAST)) as store:
        with caplog.at_level(logging.WARNING):
            head, number, reason = await filled(store, await store.take_over(ROOT))
        assert reason in (Refusal.FULL, Refusal.FAILED)
        assert number * 6000 > 2 * CAP
        assert "the next segment" in caplog.text
        head = await put(store, head, [Change("k0", b"y" * 6000)])
        head = await put(store, head, [Change(f"k{gone}", None) for gone in range(number - 2)])
        head = await put(store, head, writes(a=b"2"))
        assert set(await records(store, head)) == {"a", f"k{number - 1}", f"k{number - 2}"}
    async with opened(site.address(**FAST)) as other:
        assert (await taken_over(other))[1]["a"] == b"2"


async def test_an_empty_next_segment_that_was_garbled_while_nobody_led_is_made_one_again(
    site: Site, outsider: Outsider
) -> None:
    async with opened(site.address()) as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await spare_is_there(store)
    outsider.patch(SPARE, {"metadata": {"annotations": {"milepost/head": "{}"}}})
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), [Change("full", b"x" * (CAP * 7 // 8))])
        await put(store, head, writes(a=b"2"))
        assert outsider.states()[:2] == ["sealed", "active"]


@pytest.mark.parametrize("way", ["rights", "finalizers"])
async def test_segments_that_cannot_be_deleted_do_not_pile_up_without_end(
    site: Site, outsider: Outsider, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_write, "_LEAST_UNDELETED", 12)
    place = without(site, "delete") if way == "rights" else site
    async with opened(place.address(**FAST, most_bytes=str(1024 * 1024))) as store:
        head = await store.take_over(ROOT)
        for number in range(300):
            end = await store.commit(head, [Change("a", b"%d" % (number % 10) * (CAP * 7 // 8))], head.revision + 1)
            if not isinstance(end, Done):
                break
            head = end.head
            if way == "finalizers":
                last = LAYOUT.segment(memory_of(store).last - 1)
                outsider.patch(last, {"metadata": {"finalizers": ["example.com/held"]}})
            if number % 10 == 9:
                await store.check()
        assert refused(end) is Refusal.FULL
        assert "cannot be deleted" in str(end)
        assert len(outsider.segments()) < 100
        for name in outsider.segments():
            outsider.patch(name, {"metadata": {"finalizers": None}})
    async with opened(site.address(**FAST)) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        assert await records(store, head) == {"a": b"1"}


@pytest.mark.parametrize(
    "change",
    [
        'op: "remove", path: "/metadata/annotations/milepost~1head"',
        'op: "replace", path: "/metadata/labels/milepost~1journal", value: "theirs"',
    ],
    ids=["head", "labels"],
)
async def test_a_group_that_is_stored_without_what_it_is_found_by_is_not_acknowledged(site: Site, change: str) -> None:
    """Nobody could take over from it: it would be lost with this leader."""
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        altering(site, change)

        async def is_altered() -> bool:
            end = await store.commit(ended[-1], writes(b=b"%d" % len(ended)), ended[-1].revision + 1)
            if isinstance(end, Done):
                ended.append(end.head)
            return not isinstance(end, Done)

        ended = [head]
        await until(is_altered)
        with pytest.raises(StorageUnavailable, match="was stored with another head or other labels"):
            await store.take_over(ROOT, ended[-1])


async def test_what_cannot_be_put_right_keeps_nothing_else_from_it(site: Site, outsider: Outsider) -> None:
    first = LAYOUT.segment(1)
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        await spare_is_there(store)
        head = await put(store, head, [Change("full", b"x" * (CAP * 7 // 8)), *writes(a=b"1")])
        await put(store, head, writes(b=b"1"))
        await spare_is_there(store)
        outsider.delete(LAYOUT.deployment_marker)
        limit(site)
        outsider.patch(first, {"data": {"a": "theirs"}})
        with pytest.raises(StorageFull):
            await store.check()
        assert outsider.get(first)["data"]["a"] == "1"

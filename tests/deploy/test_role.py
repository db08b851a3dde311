"""The chart's Role is enough for all that Milepost does in Kubernetes, and no verb of it is one too many."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from milepost_backends.contract import Change, Done
from milepost_backends.kubernetes.address import INSTANCE, LEADER, ROLE, labels_of, selector
from milepost_backends.kubernetes.election.election import KubernetesElection
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from testbed.kubernetes.admin import NEEDED
from tests.contracts.places import Services
from tests.deploy.helm import CHART, Helm
from tests.support.servers import kubernetes
from tests.support.servers.kubernetes import LONG, NAME, SHORT, Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

Rules = Sequence[dict[str, Any]]
DEADLINE = 60.0
VALUES = CHART / "ci" / "kubernetes-s3-values.yaml"
JOURNAL = "root"
LARGE = b"x" * 16_000
REWRITES = 60
FEW = 20


class Undone(Exception):
    """What was to be done was refused; the message is the store's."""


async def keep_a_journal(site: Site) -> None:
    """Take over, commit, and rewrite one record until old ConfigMaps have been compacted away."""
    store = KubernetesPointers(site.address(**LONG))
    await store.open()
    try:
        head = await store.take_over(JOURNAL)
        assert [change async for change in store.load(head)] == []
        for _ in range(REWRITES):
            end = await store.commit(head, [Change("stores/flights/handles/latest", LARGE)], head.revision + 1)
            if not isinstance(end, Done):
                raise Undone(end.detail)
            head = end.head
        assert await store.confirm(head)

        async def few() -> bool:
            return len(config_maps(site)) < FEW

        await until(few, DEADLINE)
    finally:
        await store.close()


async def lead(site: Site) -> None:
    """Win the election, lead for longer than one lease, and resign."""
    election = KubernetesElection(site.address(**SHORT), "http://10.0.0.1:7070")
    await election.open()
    try:
        leadership = await election.campaign()
        end = time.monotonic() + 2 * float(SHORT["lease_duration"])

        async def renewed() -> bool:
            return leadership.remaining(end) > 0 or leadership.remaining(time.monotonic()) <= 0

        await until(renewed, DEADLINE)
        if leadership.remaining(time.monotonic()) <= 0:
            raise Undone("the lease was lost")
        await leadership.resign()
    finally:
        await election.close()


async def wear_the_label(site: Site) -> None:
    """Lead from a Pod that another one left with the label still on."""
    for name, role in (("mine", {}), ("gone", {ROLE: LEADER})):
        pod = {
            "metadata": {"name": name, "labels": {INSTANCE: NAME, **role}},
            "spec": {"containers": [{"name": "milepost", "image": "milepost"}]},
        }
        site.api.admin.ask("POST", f"/api/v1/namespaces/{site.namespace}/pods", pod)
    election = KubernetesElection(site.address(pod="mine", **SHORT), "http://10.0.0.1:7070")
    await election.open()
    try:
        await election.campaign()

        async def moved() -> bool:
            return names(site, "pods", {ROLE: LEADER}) == ["mine"]

        await until(moved, DEADLINE)
    finally:
        await election.close()


ACTS: Sequence[Callable[[Site], Awaitable[None]]] = (keep_a_journal, lead, wear_the_label)
NEEDED_BY = {
    ("configmaps", "get"): keep_a_journal,
    ("configmaps", "list"): keep_a_journal,
    ("configmaps", "create"): keep_a_journal,
    ("configmaps", "update"): keep_a_journal,
    ("configmaps", "delete"): keep_a_journal,
    ("leases", "get"): lead,
    ("leases", "create"): lead,
    ("leases", "update"): lead,
    ("pods", "list"): wear_the_label,
    ("pods", "patch"): wear_the_label,
}


def names(site: Site, resource: str, labels: dict[str, str]) -> list[str]:
    """The names of the objects with these labels, as an account that may do everything sees them."""
    path = f"/api/v1/namespaces/{site.namespace}/{resource}?labelSelector={selector(labels)}"
    return sorted(each["metadata"]["name"] for each in site.api.admin.ask("GET", path)["items"])


def config_maps(site: Site) -> list[str]:
    return names(site, "configmaps", labels_of(NAME))


def granted(rules: Rules) -> set[tuple[str, str]]:
    """Resources and verbs."""
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def without(rules: Rules, resource: str, verb: str) -> Rules:
    """The same but for one verb."""
    fewer = copy.deepcopy(list(rules))
    for rule in fewer:
        if resource in rule["resources"]:
            rule["verbs"] = [each for each in rule["verbs"] if each != verb]
    return [rule for rule in fewer if rule["verbs"]]


@pytest.fixture
def role(helm: Helm) -> Rules:
    """The rules that the chart gives to a release named as the tests' deployments are."""
    rules: Rules = helm.render(VALUES, release=NAME).one("Role")["rules"]
    return rules


def test_the_suites_run_under_this_role(role: Rules) -> None:
    """All of Milepost's contracts are held by accounts that have exactly these rules."""
    assert [dict(rule) for rule in NEEDED] == list(role)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
async def test_the_role_is_enough(
    role: Rules,
    services: Services,
    act: Callable[[Site], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await act(kubernetes.site(kubernetes.shared_api(services), role))
    assert "403" not in caplog.text


async def test_what_is_kept_has_no_label_of_a_deployment_tool(role: Rules, services: Services) -> None:
    """Argo CD and others delete what carries their labels and is not in their manifests, of the same name or not."""
    site = kubernetes.site(kubernetes.shared_api(services), role)
    await keep_a_journal(site)
    await lead(site)
    path = f"/api/v1/namespaces/{site.namespace}/configmaps"
    kept = [*site.api.admin.ask("GET", path)["items"], site.lease()]
    assert len(kept) > 3
    for each in kept:
        marks = {**each["metadata"].get("labels", {}), **each["metadata"].get("annotations", {})}
        assert {name.partition("/")[0] for name in marks} <= {"milepost"}, each["metadata"]["name"]


@pytest.mark.parametrize(("resource", "verb"), NEEDED_BY, ids=lambda part: part)
async def test_no_verb_can_be_spared(
    role: Rules, services: Services, resource: str, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without it the API refuses something that Milepost asks for; that its act fails or complains shows in words."""
    assert (resource, verb) in granted(role)
    site = kubernetes.site(kubernetes.shared_api(services), without(role, resource, verb))
    acting = asyncio.ensure_future(NEEDED_BY[resource, verb](site))

    async def refused() -> bool:
        raised = acting.exception() if acting.done() and not acting.cancelled() else None
        assert raised is not None or not acting.done(), "it was done without"
        return f'cannot {verb} resource "{resource}"' in f"{raised}{caplog.text}"

    try:
        await until(refused, DEADLINE)
    finally:
        acting.cancel()
        await asyncio.wait([acting])


def test_every_verb_is_tried(role: Rules) -> None:
    assert granted(role) == set(NEEDED_BY)

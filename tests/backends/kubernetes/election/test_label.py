"""The label on the leader's Pod, in a real Kubernetes API. No node runs these Pods: they are there to be labelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from milepost_backends.contract import BackendError
from milepost_backends.kubernetes.election.label import LeaderLabel
from testbed.kubernetes.admin import MERGE_PATCH, NEEDED
from tests.backends.kubernetes.election.leases import DEADLINE, FOR_EVER, ONE, OTHER, leads, opened, won
from tests.contracts.places import Services
from tests.support.servers import kubernetes
from tests.support.servers.kubernetes import SHORT, Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

WITHOUT_PODS = [rule for rule in NEEDED if rule["resources"] != ["pods"]]


def pods_path(site: Site, name: str = "") -> str:
    return f"/api/v1/namespaces/{site.namespace}/pods" + (f"/{name}" if name else "")


def make_pod(site: Site, name: str, *, instance: str = "milepost", role: str | None = None) -> None:
    labels = {"app.kubernetes.io/instance": instance, "team": "data"} | ({"milepost/role": role} if role else {})
    containers = [{"name": "milepost", "image": "milepost"}]
    pod = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": containers}}
    site.api.admin.ask("POST", pods_path(site), pod)


def label(site: Site, name: str, role: str | None) -> None:
    change = {"metadata": {"labels": {"milepost/role": role}}}
    site.api.admin.ask("PATCH", pods_path(site, name), change, content_type=MERGE_PATCH)


def labelled(site: Site) -> set[str]:
    """The Pods that a Service finds which selects the leader's."""
    listed = site.api.admin.ask("GET", f"{pods_path(site)}?labelSelector=milepost%2Frole%3Dleader")
    return {pod["metadata"]["name"] for pod in listed["items"]}


async def until_labelled(site: Site, *names: str) -> None:
    async def seen() -> bool:
        return labelled(site) == set(names)

    await until(seen)


async def test_the_label_goes_with_the_leadership(site: Site) -> None:
    make_pod(site, "pod-1")
    make_pod(site, "pod-2")
    async with (
        opened(site.address(pod="pod-1", **FOR_EVER), ONE) as one,
        opened(site.address(pod="pod-2", **FOR_EVER), OTHER) as other,
    ):
        assert labelled(site) == set()
        first = await won(one)
        await until_labelled(site, "pod-1")
        await first.resign()
        assert labelled(site) == set()
        await won(other)
        await until_labelled(site, "pod-2")
    assert labelled(site) == set()


async def test_a_leader_takes_it_off_one_that_died_with_it(site: Site) -> None:
    make_pod(site, "dead", role="leader")
    make_pod(site, "pod-1")
    make_pod(site, "of-another", instance="milepost-2", role="leader")
    async with opened(site.address(pod="pod-1", **SHORT), ONE) as one:
        await won(one)
        await until_labelled(site, "pod-1", "of-another")
        dead: Any = site.api.admin.ask("GET", pods_path(site, "dead"))
        assert dead["metadata"]["labels"] == {"app.kubernetes.io/instance": "milepost", "team": "data"}


async def test_who_is_started_anew_in_its_pod_takes_it_off(site: Site) -> None:
    make_pod(site, "pod-1", role="leader")
    async with opened(site.address(pod="pod-1", **SHORT), ONE):
        assert labelled(site) == set()


async def test_without_a_pod_nothing_is_labelled(site: Site) -> None:
    make_pod(site, "pod-1", role="leader")
    async with opened(site.address(**SHORT), ONE) as one:
        await (await won(one)).resign()
    assert labelled(site) == {"pod-1"}


async def test_a_label_that_was_taken_away_comes_back(site: Site) -> None:
    make_pod(site, "pod-1")
    worn = LeaderLabel(site.address(**SHORT), "pod-1", look_again=0.05)
    await worn.open()
    keeping = asyncio.create_task(worn.keep(lambda: True))
    try:
        await until_labelled(site, "pod-1")
        label(site, "pod-1", None)
        await until_labelled(site, "pod-1")
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        await worn.close()


async def test_what_fails_is_tried_again_and_costs_no_leadership(site: Site) -> None:
    """There is no such Pod at first."""
    async with opened(site.address(pod="pod-1", **SHORT), ONE) as one:
        leadership = await won(one)
        before = leadership.remaining(0.0)

        async def renewed() -> bool:
            return leadership.remaining(0.0) > before + 1.0

        await until(renewed)
        make_pod(site, "pod-1")
        await until_labelled(site, "pod-1")
        assert leads(leadership)


async def test_who_may_not_label_leads_all_the_same(services: Services) -> None:
    site = kubernetes.site(kubernetes.shared_api(services), WITHOUT_PODS)
    make_pod(site, "pod-1")
    async with opened(site.address(pod="pod-1", **SHORT), ONE) as one:
        leadership = await won(one)
        await leadership.resign()
        assert labelled(site) == set()
        worn = LeaderLabel(site.address(**SHORT), "pod-1")
        await worn.open()
        with pytest.raises(BackendError, match="403"):
            await worn._remove_from_others(lambda: True)
        await worn.close()


async def test_who_led_takes_it_off_nobody_that_put_it_on_later(site: Site) -> None:
    """Between its look and its act another one led; this leader was paused there."""
    make_pod(site, "pod-1")
    make_pod(site, "pod-2", role="leader")
    worn = LeaderLabel(site.address(**SHORT), "pod-1")
    await worn.open()
    seen = await worn._labelled()
    label(site, "pod-2", None)
    label(site, "pod-2", "leader")
    async with asyncio.timeout(DEADLINE):
        await worn._patch("pod-2", None, seen["pod-2"])
    assert labelled(site) == {"pod-2"}
    await worn._remove_from_others(lambda: False)
    assert labelled(site) == {"pod-2"}
    await worn._remove_from_others(lambda: True)
    assert labelled(site) == set()
    await worn.close()

"""Elections on a Lease while the Kubernetes API is away, slow, cut off, started anew, or refuses."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from milepost_backends.contract import Misconfigured, StorageUnavailable
from milepost_backends.kubernetes.client import KubernetesClient
from milepost_backends.kubernetes.election.election import KubernetesElection
from milepost_backends.kubernetes.errors import ApiAnswer, NoAnswer
from tests.backends.kubernetes.election.leases import (
    DEADLINE,
    FOR_EVER,
    ONE,
    OTHER,
    holder,
    leads,
    opened,
    until_lost,
    won,
)
from tests.contracts.places import Services
from tests.support.children import child
from tests.support.network.link import Link, link
from tests.support.servers import kubernetes
from tests.support.servers.kubernetes import LONG, SHORT, Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

CREATES_ONLY = ({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create"]},)
NO_RULES = ({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},)


@pytest.fixture
async def way(services: Services) -> AsyncIterator[Link]:
    """A link to the session's API, of which one can be cut off."""
    async with link(kubernetes.shared_api(services).port) as made:
        yield made


@pytest.fixture
def far(site: Site, way: Link) -> Site:
    """The same namespace as ``site``, by the same account, over the link."""
    path = site.kubeconfig.with_suffix(".far")
    path.write_text(site.kubeconfig.read_text().replace(f":{site.api.port}", f":{way.port}"))
    return Site(site.api, site.namespace, path)


@pytest.fixture
def held_up(way: Link, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """While cleared, the next write finds the way back closed as it is sent, and sets this."""
    request, event = KubernetesClient.request, asyncio.Event()
    event.set()

    async def noticed(client: KubernetesClient, method: str, *arguments: Any, **options: Any) -> ApiAnswer:
        if method != "GET" and not event.is_set():
            way.answers_pass.clear()
            event.set()
        return await request(client, method, *arguments, **options)

    monkeypatch.setattr(KubernetesClient, "request", noticed)
    return event


async def test_a_leader_that_is_cut_off_leads_no_more_before_another_one_does(site: Site, far: Site, way: Link) -> None:
    async with opened(far.address(**SHORT), ONE) as one, opened(site.address(**SHORT), OTHER) as other:
        leadership = await won(one)
        waiting = asyncio.create_task(won(other))
        await asyncio.sleep(1.0)  # renewals go on over connections that stand
        way.hold()
        await until_lost(leadership)
        assert not waiting.done()
        second = await waiting
        way.restore()
        await leadership.resign()
        assert holder(site).startswith(f"{OTHER}#")
        assert leads(second)


async def test_a_leader_that_was_paused_for_longer_than_its_lease_knows_that_it_is_over(site: Site) -> None:
    """In a process of its own, stopped until another one leads."""
    url = site.url(**SHORT)
    async with (
        child("tests.contracts.children.candidate", "kubernetes", url, ONE) as one,
        opened(site.address(**SHORT), OTHER) as other,
    ):
        assert await one.line() == "ready"
        await one.say("campaign")
        assert await one.line() == "leading"
        one.pause()
        second = await won(other)
        one.resume()
        await one.say("certain?")
        assert {await one.line(), await one.line()} == {"lost", "no"}
        assert leads(second)
        assert holder(site).startswith(f"{OTHER}#")


async def test_an_api_server_whose_answers_take_a_while_has_a_leader_all_the_same(far: Site, way: Link) -> None:
    """Longer than a second each; what the lease leaves time for is what counts."""
    way.answers_take = 1.2
    times = {"lease_duration": "30", "renew_deadline": "20", "retry_period": "0.5"}
    async with opened(far.address(**times), ONE) as one:
        leadership = await won(one)
        first = leadership.remaining(0.0)

        async def renewed() -> bool:
            return leadership.remaining(0.0) > first

        await until(renewed)
        assert leads(leadership)
        way.answers_take = 0.0


async def test_a_renewal_counts_from_before_it_was_sent(far: Site, way: Link, held_up: asyncio.Event) -> None:
    """Its answer comes late: what was sent counts, not what was heard."""
    async with opened(far.address(**FOR_EVER), ONE) as one:
        leadership = await won(one)
        before = leadership.remaining(0.0)
        held_up.clear()
        await _set(held_up)
        await asyncio.sleep(0.3)
        restored = time.monotonic()
        way.restore()

        async def renewed() -> bool:
            return leadership.remaining(0.0) > before

        await until(renewed)
        assert leadership.remaining(0.0) - 1800 <= restored - 0.3


async def test_a_renewal_whose_answer_is_lost_costs_no_leadership(
    site: Site, far: Site, way: Link, held_up: asyncio.Event
) -> None:
    """It was applied: the next one meets another version of the Lease, and finds that it is ours."""
    async with opened(far.address(**LONG), ONE) as one:
        leadership = await won(one)
        before = site.lease()
        assert before is not None
        held_up.clear()
        await _set(held_up)

        async def applied() -> bool:
            lease = site.lease()
            assert lease is not None
            return bool(lease["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"])

        await until(applied)
        await way.cut()
        first = leadership.remaining(0.0)

        async def renewed() -> bool:
            way.restore()
            return leadership.remaining(0.0) > first

        await until(renewed)
        assert leads(leadership)


async def test_a_campaign_that_is_cancelled_while_it_wins_lets_go(
    site: Site, far: Site, way: Link, held_up: asyncio.Event
) -> None:
    async with opened(far.address(**FOR_EVER), ONE) as one:
        held_up.clear()
        campaign = asyncio.create_task(one.campaign())
        await _set(held_up)

        async def stands() -> bool:
            return holder(site) != ""

        await until(stands)
        campaign.cancel()
        way.restore()
        with pytest.raises(asyncio.CancelledError):
            await campaign
        assert holder(site) == ""


@pytest.mark.parametrize("before", ["none", "released", "run out"])
async def test_a_claim_that_is_late_finds_no_lease_to_take(
    site: Site, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """It is kept back here, since no link can hold one request and pass the next, and sent after its campaign."""
    request, kept = KubernetesClient.request, list[tuple[str, str, Any]]()

    async def keeps_the_first(client: KubernetesClient, method: str, path: str, **options: Any) -> ApiAnswer:
        if method != "GET" and not kept:
            kept.append((method, path, json.loads(options["body"])))
            raise NoAnswer("kept")
        return await request(client, method, path, **options)

    async with opened(site.address(**SHORT), ONE) as one, opened(site.address(**FOR_EVER), OTHER) as other:
        if before != "none":
            first = await won(one)
            if before == "released":
                await first.resign()
            for task in first._tasks:  # as if its process were gone
                task.cancel()
        async with opened(site.address(**SHORT), "http://127.0.0.1:7073") as late:
            monkeypatch.setattr(KubernetesClient, "request", keeps_the_first)
            with pytest.raises(StorageUnavailable, match="kept"):
                await late.campaign()
        assert holder(site) == ""
        status, _ = site.api.admin.request(*kept[0])
        assert status == 409
        await won(other)


async def test_an_election_opens_once_the_api_is_there(far: Site, way: Link) -> None:
    election = KubernetesElection(far.address(**SHORT), ONE)
    way.hold()
    with pytest.raises(StorageUnavailable):
        await election.open()
    way.restore()
    await election.open()
    try:
        await won(election)
    finally:
        await election.close()


async def test_closing_ends_a_campaign_whose_request_is_held_up(far: Site, way: Link) -> None:
    election = KubernetesElection(far.address(**FOR_EVER), ONE)
    await election.open()
    way.hold()
    campaign = asyncio.create_task(election.campaign())
    await asyncio.sleep(0.2)
    async with asyncio.timeout(DEADLINE):
        await election.close()
        with pytest.raises(StorageUnavailable):
            await campaign


async def test_an_etcd_that_stands_still_renews_no_lease(tmp_path: Path) -> None:
    """The API server answers nothing then, or that it does not know; either way the lease runs out in time."""
    with kubernetes.running(tmp_path) as api:
        site = kubernetes.site(api)
        async with opened(site.address(**SHORT), ONE) as one:
            leadership = await won(one)
            await asyncio.to_thread(api.etcd.pause)
            await until_lost(leadership)
            api.etcd.resume()
            await leadership.resign()
            await won(one)


async def test_who_may_not_read_the_lease_is_told_so(services: Services) -> None:
    site = kubernetes.site(kubernetes.shared_api(services), NO_RULES)
    with pytest.raises(Misconfigured, match="403"):
        await KubernetesElection(site.address(**SHORT), ONE).open()


async def test_a_release_that_is_refused_is_logged(services: Services, caplog: pytest.LogCaptureFixture) -> None:
    """It may read the Lease all the time; only the right to change it is gone."""
    site = kubernetes.site(kubernetes.shared_api(services), CREATES_ONLY)
    async with opened(site.address(**LONG), ONE) as one:
        leadership = await won(one)
        await leadership.resign()
        assert holder(site).startswith(f"{ONE}#")
    assert "cannot release the Lease, which is left to run out" in caplog.text


async def test_a_namespace_that_is_not_there_is_named(services: Services) -> None:
    api = kubernetes.shared_api(services)
    site = Site(api, "no-such-namespace", api.admin_kubeconfig)
    async with opened(site.address(**SHORT), ONE) as one:
        with pytest.raises(StorageUnavailable, match="no-such-namespace"):
            await one.campaign()


async def _set(event: asyncio.Event) -> None:
    async with asyncio.timeout(DEADLINE):
        await event.wait()

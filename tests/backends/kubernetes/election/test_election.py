"""Elections on a Lease in a real Kubernetes API: winning, renewing, letting go, and what other hands do to it."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone

import pytest

from milepost_backends.contract import Misconfigured
from tests.backends.kubernetes.election.leases import FOR_EVER, ONE, OTHER, holder, leads, opened, until_lost, won
from tests.contracts.places import Services
from tests.support.servers import kubernetes
from tests.support.servers.kubernetes import LONG, MIDDLING, SHORT, Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

ALL_LEASES = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]


async def test_the_lease_is_renewed_and_never_certain_for_longer_than_the_deadline(site: Site) -> None:
    async with opened(site.address(**SHORT), ONE) as one:
        before = time.monotonic()
        leadership = await won(one)
        first = leadership.remaining(0.0)
        assert before + 2.0 <= first <= time.monotonic() + 2.0

        async def renewed() -> bool:
            assert leadership.remaining(time.monotonic()) <= 2.0
            return leadership.remaining(0.0) > first + 3.0

        await until(renewed)


async def test_the_lease_tells_people_who_leads_since_when_and_after_how_many(site: Site) -> None:
    async with opened(site.address(**SHORT), ONE) as one, opened(site.address(**SHORT), OTHER) as other:
        await (await won(one)).resign()
        await won(other)
        lease = site.lease()
        assert lease is not None
        assert lease["metadata"]["labels"] == {"milepost/deployment": "milepost"}
        assert lease["metadata"]["annotations"] == {"milepost/advertise": OTHER}
        assert "managedFields" not in lease["metadata"]
        assert lease["spec"]["holderIdentity"].startswith(f"{OTHER}#")
        assert lease["spec"]["leaseDurationSeconds"] == 3
        assert lease["spec"]["leaseTransitions"] == 1
        assert lease["spec"]["acquireTime"] <= lease["spec"]["renewTime"]


async def test_a_released_lease_is_taken_at_once(site: Site) -> None:
    async with opened(site.address(**FOR_EVER), ONE) as one, opened(site.address(**FOR_EVER), OTHER) as other:
        leadership = await won(one)
        waiting = asyncio.create_task(won(other))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await leadership.resign()
        await waiting
        assert holder(site).startswith(f"{OTHER}#")


async def test_each_campaign_is_another_holder(site: Site) -> None:
    async with opened(site.address(**SHORT), ONE) as one:
        leadership = await won(one)
        first = holder(site)
        await leadership.resign()
        assert holder(site) == ""
        await won(one)
        assert first.startswith(f"{ONE}#")
        assert holder(site).startswith(f"{ONE}#")
        assert holder(site) != first


async def test_a_candidate_that_waits_writes_nothing(site: Site) -> None:
    async with opened(site.address(**FOR_EVER), ONE) as one, opened(site.address(**SHORT), OTHER) as other:
        leadership = await won(one)
        waiting = asyncio.create_task(other.campaign())
        held = leadership._candidate._held
        assert held is not None
        await asyncio.sleep(0.3)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert leads(leadership)
        assert holder(site) == held.holder
        lease = site.lease()
        assert lease is not None
        assert lease["spec"]["leaseTransitions"] == 0


@pytest.mark.parametrize("hours", [-5, 5])
async def test_the_wall_clocks_of_the_others_do_not_matter(site: Site, hours: int) -> None:
    """One whose clock is wrong by hours deposes nobody that lives, and is deposed by nobody; the dead are followed."""

    def wrong() -> datetime:
        return datetime.now(timezone.utc) + timedelta(hours=hours)

    address = site.address(**MIDDLING)
    async with opened(address, ONE, wall=wrong) as one, opened(address, OTHER) as other:
        leadership = await won(one)
        waiting = asyncio.create_task(won(other))
        done, _ = await asyncio.wait([waiting], timeout=7.0)  # longer than the lease
        assert not done
        assert leads(leadership)
        assert await other.leader() == ONE
        for task in leadership._tasks:  # as if its process were gone
            task.cancel()
        second = await waiting
        assert not leads(leadership)
        await leadership.resign()
        third = asyncio.create_task(won(one))
        done, _ = await asyncio.wait([third], timeout=7.0)
        assert not done
        assert leads(second)
        await second.resign()
        await third


async def test_a_lease_that_is_deleted_is_leadership_lost_and_can_be_won_again(site: Site) -> None:
    async with opened(site.address(**SHORT), ONE) as one:
        leadership = await won(one)
        site.api.admin.ask("DELETE", site.lease_path())
        await until_lost(leadership)
        await leadership.resign()
        assert site.lease() is None
        await won(one)
        assert holder(site).startswith(f"{ONE}#")


@pytest.mark.parametrize("other", ["somebody-else", ""])
async def test_a_holder_that_was_replaced_by_hand_leads_no_more(site: Site, other: str) -> None:
    async with opened(site.address(**LONG), ONE) as one:
        leadership = await won(one)
        site.edit_lease({"spec": {"holderIdentity": other}})
        await until_lost(leadership)
        await leadership.resign()
        assert holder(site) == other


@pytest.mark.parametrize("way", ["deleted", "cleared", "put back"])
async def test_another_hand_makes_no_second_leader(site: Site, way: str) -> None:
    """The leader renews each two seconds, and is certain until then. The other one would win a free Lease in less."""
    settings = {"lease_duration": "8", "renew_deadline": "6"}
    quick = site.address(**settings, retry_period="0.5")
    async with opened(site.address(**settings, retry_period="2"), ONE) as one, opened(quick, OTHER) as other:
        first = await won(one)
        waiting = asyncio.create_task(won(other))

        async def seen() -> bool:
            return other._observer._held is not None

        await until(seen)
        if way == "deleted":
            site.api.admin.ask("DELETE", site.lease_path())
        elif way == "cleared":
            site.edit_lease({"spec": {"holderIdentity": ""}})
        else:
            old = {"milepost/released": f"{OTHER}#0"}
            site.edit_lease({"metadata": {"annotations": old}, "spec": {"holderIdentity": ""}})
        while first.remaining(time.monotonic()) > 0:
            assert not waiting.done()
            await asyncio.sleep(0.02)
        await waiting
        assert holder(site).startswith(f"{OTHER}#")


async def test_edits_that_leave_the_holder_cost_no_leadership_and_are_mended(site: Site) -> None:
    async with opened(site.address(**LONG), ONE) as one:
        leadership = await won(one)
        site.edit_lease(
            {
                "metadata": {
                    "labels": {"team": "data", "milepost/deployment": None},
                    "annotations": {"milepost/advertise": "http://nobody", "note": "kept"},
                },
                "spec": {"leaseDurationSeconds": 1, "leaseTransitions": 0, "renewTime": None},
            }
        )

        async def mended() -> bool:
            lease = site.lease()
            assert lease is not None
            return "milepost/deployment" in lease["metadata"]["labels"]

        await until(mended)
        lease = site.lease()
        assert lease is not None
        assert lease["metadata"]["labels"]["team"] == "data"
        assert lease["metadata"]["annotations"] == {"milepost/advertise": ONE, "note": "kept"}
        assert lease["spec"]["leaseDurationSeconds"] == 60
        assert lease["spec"]["renewTime"]
        assert leads(leadership)


async def test_a_duration_that_was_lowered_by_hand_lets_nobody_in(site: Site) -> None:
    """The leader renews each second, so that a lease of one second would run out again and again."""
    settings = {"lease_duration": "30", "renew_deadline": "20", "retry_period": "5"}
    async with opened(site.address(**settings), ONE) as one, opened(site.address(**settings), OTHER) as other:
        leadership = await won(one)
        site.edit_lease({"spec": {"leaseDurationSeconds": 1}})
        waiting = asyncio.create_task(other.campaign())
        done, _ = await asyncio.wait([waiting], timeout=3.0)
        assert not done
        assert leads(leadership)
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_a_lease_without_its_label_whose_count_is_as_high_as_it_goes_is_won_all_the_same(site: Site) -> None:
    async with opened(site.address(**LONG), ONE) as one:
        await (await won(one)).resign()
        site.edit_lease({"metadata": {"labels": None}, "spec": {"leaseTransitions": 2**31 - 1}})
        assert leads(await won(one))


async def test_a_lease_that_is_not_ours_is_not_touched(site: Site) -> None:
    site.api.admin.ask("POST", site.lease_path(""), {"metadata": {"name": "milepost", "labels": {"team": "data"}}})
    before = site.lease()
    async with opened(site.address(**SHORT), ONE) as one:
        assert await one.leader() is None
        with pytest.raises(Misconfigured, match="not Milepost's"):
            await one.campaign()
    assert site.lease() == before


async def test_two_deployments_in_one_namespace_have_a_leader_each(services: Services) -> None:
    site = kubernetes.site(kubernetes.shared_api(services), ALL_LEASES)
    async with (
        opened(site.address(name="first", **SHORT), ONE) as one,
        opened(site.address(name="second", **SHORT), OTHER) as other,
    ):
        await won(one)
        await won(other)
        assert (await one.leader(), await other.leader()) == (ONE, OTHER)


async def test_who_leads_is_seen_by_all_and_no_longer_once_the_lease_has_run_out(site: Site) -> None:
    async with opened(site.address(**SHORT), ONE) as one, opened(site.address(**SHORT), OTHER) as other:
        leadership = await won(one)

        async def seen() -> bool:
            return await other.leader() == ONE

        await until(seen)
        for task in leadership._tasks:  # as if its process were gone
            task.cancel()

        async def forgotten() -> bool:
            return await other.leader() is None

        await until(forgotten)
        assert not leads(leadership)
        assert holder(site).startswith(f"{ONE}#")

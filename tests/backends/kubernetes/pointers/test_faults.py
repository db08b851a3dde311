"""Pointers in Kubernetes while etcd stands still or is full, answers are lost, and nothing is permitted.

(What holds of every server that stops or hangs is shown in `tests.contracts.test_coordination_outages`.)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from milepost_backends.contract import (
    Change,
    Done,
    Misconfigured,
    Refusal,
    StorageFull,
    StorageUnavailable,
    Unknown,
)
from milepost_backends.kubernetes.client import KubernetesClient
from milepost_backends.kubernetes.errors import ApiAnswer
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from testbed.kubernetes.admin import Rules
from testbed.kubernetes.api import KubernetesApi
from tests.backends.kubernetes.places import LAYOUT, Outsider, opened
from tests.contracts.journals import ROOT, put, records, refused, taken_over, taken_over_at_last, writes
from tests.support.network.link import Link, link
from tests.support.servers import kubernetes
from tests.support.servers.kubernetes import Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

READ_ONLY: Rules = ({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},)
NOTHING: Rules = ({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]},)


@asynccontextmanager
async def behind_a_link(place: Site) -> AsyncIterator[tuple[Link, Site]]:
    """The same namespace for another account, whose requests go through a link."""
    async with link(place.api.port) as made:
        url = f"https://127.0.0.1:{made.port}"
        kubeconfig = await asyncio.to_thread(
            place.api.service_account, place.namespace, name="behind-a-link", server=url
        )
        yield made, Site(place.api, place.namespace, kubeconfig)


async def test_a_group_that_etcd_swallowed_lands_before_the_take_over_or_never(tmp_path: Path) -> None:
    """The API server gives up, and says 504 or on a busy machine hangs up, while etcd still has the write to come."""
    kubernetes.require_programs()
    with KubernetesApi(tmp_path, server_flags=["--request-timeout=3s"]) as api:
        place = kubernetes.site(api.start())
        async with opened(place.address(), timeout=20.0) as store:
            head = await put(store, await store.take_over(ROOT), writes(a=b"0"))
            for number in range(1, 5):
                api.etcd.pause()
                end = await store.commit(head, writes(a=b"%d" % number), head.revision + 1)
                assert isinstance(end, Unknown), end
                assert "504" in end.detail or "Remote end closed connection" in end.detail
                with pytest.raises(StorageUnavailable):
                    await store.take_over(ROOT)
                api.etcd.resume()
                head, found = await taken_over_at_last(store)
                assert found["a"] in (b"%d" % (number - 1), b"%d" % number)
                head = await put(store, head, writes(b=found["a"]))
                assert (await taken_over(store))[1] == {"a": found["a"], "b": found["a"]}
                head = await put(store, await store.take_over(ROOT), writes(a=b"%d" % number))


async def test_a_group_whose_answer_is_lost_is_unknown_and_found_by_the_take_over(site: Site) -> None:
    outsider = Outsider(site)
    async with behind_a_link(site) as (between, far), opened(far.address(), timeout=5.0) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        between.answers_pass.clear()
        committing = asyncio.create_task(store.commit(head, writes(a=b"2"), head.revision + 1))

        async def committed() -> bool:
            return bool((await asyncio.to_thread(outsider.get, LAYOUT.segment(1)))["data"]["a"] == "2")

        await until(committed)
        await between.cut()
        end = await committing
        assert isinstance(end, Unknown), end
        between.restore()
        assert (await taken_over_at_last(store))[1] == {"a": b"2"}


async def test_a_group_that_is_held_up_on_its_way_never_lands_after_a_take_over(site: Site) -> None:
    async with behind_a_link(site) as (between, far), opened(far.address(), timeout=5.0) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        between.requests_pass.clear()
        end = await store.commit(head, writes(a=b"late"), head.revision + 1)
        assert isinstance(end, Unknown), end
        async with opened(site.address()) as leader:
            new = await put(leader, await leader.take_over(ROOT), writes(b=b"2"))
            between.restore()
            for number in range(20):
                new = await put(leader, new, writes(c=b"%d" % number))
            assert await records(leader, new) == {"a": b"1", "b": b"2", "c": b"19"}
            assert (await taken_over(leader))[1] == {"a": b"1", "b": b"2", "c": b"19"}


async def test_a_full_etcd_refuses_the_group_for_good_and_is_let_alone(tmp_path: Path) -> None:
    """A quota of 16 MiB is used up by some five hundred writes of a whole segment."""
    kubernetes.require_programs()
    with KubernetesApi(tmp_path, etcd_flags=["--quota-backend-bytes=16777216"]) as api:
        place = kubernetes.site(api.start())
        async with opened(place.address(bytes_per_second="100000000")) as store:
            head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
            value, number = b"x" * 60_000, 0
            while True:
                end = await store.commit(head, [Change("large", value), *writes(n=b"%d" % number)], head.revision + 2)
                if not isinstance(end, Done):
                    break
                head, number = end.head, number + 1
                assert number < 5000
            assert refused(end) is Refusal.FULL
            sent = store.bytes_sent
            assert refused(await store.commit(head, writes(b=b"2"), head.revision + 1)) is Refusal.FULL
            assert store.bytes_sent == sent
            with pytest.raises(StorageFull):
                await store.take_over(ROOT)
            assert (await records(store, head))["n"] == b"%d" % (number - 1)


class FullEtcd:
    """The API server of a store, answering writes of the last segment as etcd does when its quota runs out meanwhile.

    A fake, since the real one writes and refuses only if it grows beyond its quota between taking a write and applying
    it (``quotaApplierV3`` in its sources). `then` is done after the write.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.writes = True
        self.then: Callable[[], Awaitable[None]] | None = None
        self._request = KubernetesClient.request
        monkeypatch.setattr(KubernetesClient, "request", lambda *args, **options: self._answer(*args, **options))

    async def _answer(self, client: KubernetesClient, method: str, path: str, **options: Any) -> ApiAnswer:
        if method != "PUT" or not self.is_full or not path.endswith(LAYOUT.segment(1)):
            return await self._request(client, method, path, **options)
        if self.writes:
            assert (await self._request(client, method, path, **options)).done
        if self.then is not None:
            await self.then()
        self.is_full = False
        status = {"kind": "Status", "message": "etcdserver: mvcc: database space exceeded"}
        return ApiAnswer.read(500, json.dumps(status).encode())


async def test_a_group_that_a_full_etcd_wrote_and_refused_has_landed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd = FullEtcd(monkeypatch)
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        etcd.is_full = True
        head = await put(store, head, writes(a=b"2"))
        assert refused(await store.commit(head, writes(a=b"3"), head.revision + 1)) is Refusal.FULL
        assert await records(store, head) == {"a": b"2"}
    async with opened(site.address()) as other:
        assert (await taken_over(other))[1] == {"a": b"2"}


async def test_a_group_that_a_full_etcd_refused_has_not_landed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    etcd = FullEtcd(monkeypatch)
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        etcd.is_full, etcd.writes = True, False
        assert refused(await store.commit(head, writes(a=b"2"), head.revision + 1)) is Refusal.FULL
        assert await records(store, head) == {"a": b"1"}


@pytest.mark.parametrize("writes_it", [True, False])
@pytest.mark.parametrize("change", [{"data": {"theirs": "1"}}, None])
async def test_a_group_of_which_a_full_etcd_leaves_no_trace_is_unknown(
    site: Site, monkeypatch: pytest.MonkeyPatch, writes_it: bool, change: object
) -> None:
    """Somebody edits or deletes the segment before this leader can look whether it wrote there."""
    etcd, outsider = FullEtcd(monkeypatch), Outsider(site)

    async def meanwhile() -> None:
        if change is None:
            await asyncio.to_thread(outsider.delete, LAYOUT.segment(1))
        else:
            await asyncio.to_thread(outsider.patch, LAYOUT.segment(1), change)

    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        etcd.is_full, etcd.writes, etcd.then = True, writes_it, meanwhile
        end = await store.commit(head, writes(a=b"2"), head.revision + 1)
        assert isinstance(end, Unknown), end
        assert "space exceeded" in end.detail
        store._maps._paused_until = -1.0
        after = await store.take_over(ROOT, ours=head)
        assert (await records(store, after))["a"] in {b"1", b"2"}


async def test_a_take_over_that_a_full_etcd_wrote_and_refused_is_made_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd = FullEtcd(monkeypatch)
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        for ours in (None, head):
            etcd.is_full = True
            with pytest.raises(StorageFull):
                await store.take_over(ROOT, ours=ours)
            store._maps._paused_until = -1.0
            head, found = await taken_over(store)
            assert found == {"a": b"1"}
            head = await put(store, head, writes(a=b"1"))


async def test_what_is_not_permitted_is_reported(site: Site) -> None:
    def may(rules: Rules, name: str) -> Site:
        kubeconfig = site.api.service_account(site.namespace, rules, name=name)
        return Site(site.api, site.namespace, kubeconfig)

    async with opened(may(READ_ONLY, "reader").address()) as store:
        with pytest.raises(Misconfigured, match="403 Forbidden"):
            await store.take_over(ROOT)
        assert list(await store.journals()) == []
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    async with opened(may(READ_ONLY, "reader-too").address()) as store:
        assert refused(await store.commit(head, writes(a=b"2"), head.revision + 1)) is Refusal.DENIED
    with pytest.raises(Misconfigured, match="403 Forbidden"):
        await KubernetesPointers(may(NOTHING, "nobody").address()).open()


async def test_no_more_bytes_are_sent_than_the_budget_holds(site: Site) -> None:
    rate = 100_000
    async with opened(site.address(bytes_per_second=str(rate))) as store:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        head = await store.take_over(ROOT)
        for _ in range(30):
            head = await put(store, head, [Change("a", b"x" * 20_000)])
        assert store.bytes_sent > 30 * 20_000
        assert store.bytes_sent <= rate * (4 + loop.time() - begin) + 32_000


async def test_a_group_that_waits_for_the_budget_writes_no_older_one_again(site: Site) -> None:
    """The next segment is there by then, although it takes bytes as well."""
    async with opened(site.address(bytes_per_second="100000")) as store:
        head = await store.take_over(ROOT)
        while not store.commit_delay:
            head = await put(store, head, [Change("a", b"x" * 12_000)])
        sent = store.bytes_sent
        for number in range(8):
            await asyncio.sleep(store.commit_delay)
            head = await put(store, head, [Change("abc"[number % 3], b"x" * 12_000)])
        assert store.bytes_sent - sent < 8 * 15_000

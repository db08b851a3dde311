"""The service as a scenario sees it: a frontend, a store of its own, and a look at what lies in the backends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from milepost.errors import DiscardFailed, Problem
from milepost.wire import Outcome
from milepost_backends.contract import BlobMissing, BlobStore, Change, Commit, Done, StorageUnavailable
from milepost_server import compose
from milepost_server.http.access.tokens import Tokens
from milepost_server.http.application import Application
from milepost_server.http.connection.connections import Connections
from milepost_server.http.requests import Fields
from milepost_server.http.short_ways import ShortWays
from milepost_server.model.records import handle_key
from milepost_server.model.requests.base import Attempt
from milepost_server.replica.replica import Replica
from milepost_server.replica.settings import Settings
from milepost_server.replica.submitter import Caller
from tests.contracts.state_handle_store.frontends.actor import Actor
from tests.contracts.state_handle_store.frontends.deployments import Site
from tests.contracts.state_handle_store.frontends.frontend import Frontend
from tests.contracts.state_handle_store.frontends.rest_frontend import RestFrontend
from tests.contracts.state_handle_store.frontends.use_case_frontend import UseCaseFrontend
from tests.support.network.faults import Disturbance, RealCommit
from tests.support.servers.replicas import PROMPT, Rig
from tests.support.servers.served import free_socket, served
from tests.support.waiting import until

JOURNAL = "root"
STORE = "flights"
_SHORT_SECONDS = 0.3


@dataclass(frozen=True)
class Service:
    """A running service, and a store in it that nobody else uses. ``blob_store`` is an object apart from the service's
    own.
    """

    frontend: Frontend
    store: str
    blob_store: BlobStore

    async def actor(self, name: str, ttl: float = 600.0) -> Actor:
        """A new session."""
        session = f"{self.store}-{name}"
        await self.frontend.open_session(session, ttl)
        return Actor(self.frontend, self.store, Caller(Attempt(session)))

    async def blobs(self) -> list[bytes]:
        """The contents of every blob of the store, sorted."""
        keys = [info.key async for info in self.blob_store.list("", 0.0) if f"/{self.store}/" in info.key]
        return sorted([await self._content(key) for key in keys])

    async def _content(self, key: str) -> bytes:
        return b"".join([chunk async for chunk in self.blob_store.get(key)])

    async def blobs_become(self, *expected: bytes) -> None:
        """Wait until exactly these are left; the discard of what was replaced comes after the answer."""

        async def are() -> bool:
            try:
                return await self.blobs() == sorted(expected)
            except BlobMissing:  # discarded after it was listed
                return False

        await until(are)


@dataclass(frozen=True)
class FragileService(Service):
    """A service in this process, with faults to be had beneath it."""

    rig: Rig
    site: Site

    @property
    def discarded(self) -> list[str]:
        """The keys of the blobs that were discarded since the start, in order."""
        return self.rig.blobs.discarded

    async def discards(self, keys: list[str], since: int) -> None:
        """Wait until exactly these were discarded after the first ``since``.

        A caller that is sent to another leader is not kept by a slow discard, which goes on after the answer.
        """

        async def are() -> bool:
            return self.discarded[since:] == keys

        await until(are)

    @property
    def put(self) -> list[str]:
        """The keys of the blobs that were put since the start, in order."""
        return self.rig.blobs.put_keys

    async def restart(self, settings: Settings | None = None) -> None:
        """Stop, and start again on the same place."""
        await self.rig.restart(settings)

    async def restart_on(self, *changes: Change) -> None:
        """Stop, let somebody else write into the journal, and start again."""
        await self.rig.stop()
        store = self.site.pointer_store()
        await store.open()
        head = await store.take_over(JOURNAL)
        assert isinstance(await store.commit(head, changes, head.revision + 1), Done)
        await store.close()
        await self.rig.restart()

    async def damage(self, name: str) -> None:
        """Let the record of a handle be damaged when the service starts again."""
        await self.restart_on(Change(handle_key(self.store, name), b'{"name": "'))

    async def stored(self) -> dict[str, bytes]:
        """What the pointer store holds, looked at while the service is stopped for it."""
        await self.rig.stop()
        store = self.site.pointer_store()
        await store.open()
        head = await store.take_over(JOURNAL)
        found = {key: value async for key, value in store.load(head) if value is not None}
        await store.close()
        await self.rig.restart()
        return found

    async def mark(self, actor: Actor, name: str) -> None:
        """Let ``actor`` remove a handle while the blob store fails once: it stays, marked for deletion."""
        self.rig.blobs.deletes.once(StorageUnavailable("by the test"))
        with pytest.raises(DiscardFailed) as caught:
            await actor.remove(name)
        assert caught.value.outcome is Outcome.APPLIED

    @asynccontextmanager
    async def in_doubt(self, disturbance: Disturbance) -> AsyncIterator[None]:
        """The next commit is of unknown outcome, and stays so for longer than a request waits.

        After the block it is settled, and the service answers as patiently as before.
        """
        submitter = self.rig.replica.submitter
        usual = submitter.request_seconds
        self.rig.pointers.disturb(disturbance)
        self.rig.pointers.take_overs.from_now_on(StorageUnavailable("by the test"))
        submitter.request_seconds = _SHORT_SECONDS
        term = self.rig.replica.journal.term
        yield
        submitter.request_seconds = usual
        self.rig.pointers.take_overs.heal()
        await self.leads_above(term)

    async def leads_above(self, term: int) -> None:
        """Wait until the service leads under a later term."""
        replica = self.rig.replica

        async def later() -> bool:
            return replica.leads and replica.journal.term > term

        await until(later)

    def depose(self) -> Disturbance:
        """Another process takes the journal over while a group is on its way, because the lease had run out.

        The store's refusal is its own. Afterwards the service leads again, under a new term.
        """

        async def act(commit: RealCommit) -> Commit:
            rival = self.site.pointer_store()
            await rival.open()
            await rival.take_over(JOURNAL)
            await rival.close()
            end = await commit()
            self.rig.election.lose()
            return end

        return act


class _Current(Application):
    """The application of whichever replica the rig has now; connections outlive a replica."""

    def __init__(self, rig: Rig, site: Site) -> None:
        self._rig = rig
        self._site = site
        self._kept = Connections()
        self._made: tuple[Replica, Application] | None = None

    @property
    def idle_seconds(self) -> float:
        return self._now().idle_seconds

    @property
    def connections(self) -> Connections:
        return self._kept

    @property
    def short_way(self) -> ShortWays:
        return self._now().short_way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._now()(scope, receive, send)

    def refusal(self, error: Problem, fields: Fields, line: bytes) -> Response:
        return self._now().refusal(error, fields, line)

    def _now(self) -> Application:
        if self._made is None or self._made[0] is not self._rig.replica:
            deployment = compose.ReplicaConfig(*self._site.urls, self._rig.advertise, "replica")
            made = compose.application(deployment, self._rig.replica, Tokens(), connections=self._kept)
            assert isinstance(made, Application)
            self._made = self._rig.replica, made
        return self._made[1]


@asynccontextmanager
async def fragile_service(
    site: Site, *, rest: bool, settings: Settings = PROMPT, leading: bool = True
) -> AsyncIterator[FragileService]:
    """A replica in this process with a frontend of the kind asked for. Several may share a site."""
    bound, url = free_socket()
    rig = Rig(site.backends, settings, url)
    blob_store = site.blob_store()
    async with AsyncExitStack() as ends:
        ends.callback(bound.close)
        ends.push_async_callback(rig.stop)
        await rig.start(leading=leading)
        await blob_store.open()
        ends.push_async_callback(blob_store.close)
        frontend: Frontend
        if rest:
            await ends.enter_async_context(served(_Current(rig, site), bound))
            frontend = RestFrontend(url)
        else:
            frontend = UseCaseFrontend(lambda: rig.replica)
        ends.push_async_callback(frontend.close)
        yield FragileService(frontend, STORE, blob_store, rig, site)

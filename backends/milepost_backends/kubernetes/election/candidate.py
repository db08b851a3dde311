"""One candidate for the Lease of an election. It is used for one campaign, until the Lease is released."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

from milepost_backends.contract import BackendError, Misconfigured, StorageUnavailable
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.client import KubernetesClient
from milepost_backends.kubernetes.election.lease import Claim, Lease, LeaseObserver, claimed, released, unclaimed
from milepost_backends.kubernetes.errors import ApiAnswer, Fate, NotSent, backend_error
from milepost_backends.waiting import finish

log = logging.getLogger("milepost.election")

_LOOKS: Final = 4
"""How often a candidate reads the Lease in a retry period while another replica holds it. A release is so seen soon."""
_ROUNDS: Final = 3
"""The most attempts at a write of the Lease. One fails if another program edits the Lease between read and write."""


def lease_path(namespace: str, name: str = "") -> str:
    """Return the path of the Lease ``name`` in the URL of the Kubernetes API; without a name, that of all Leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases" + (f"/{name}" if name else "")


async def look(
    client: KubernetesClient, observer: LeaseObserver, clock: Callable[[], float], timeout: float
) -> Lease | None:
    """Read the Lease, show it to ``observer``, and return it; None if there is none.

    ``timeout`` (seconds) bounds the wait. Raises `StorageUnavailable`, `Misconfigured`.
    """
    asked = clock()
    path = lease_path(client.namespace, client.address.name)
    answer = await client.request("GET", path, timeout=timeout)
    if not answer.done and answer.status != 404:
        raise backend_error(answer, "read the Lease")
    lease = Lease.read(answer.body) if answer.done else None
    observer.note(lease, asked)
    return lease


class LeaseCandidate:
    """A candidate with its own identity and connections, so that no renewal of the Lease waits behind bulk data.

    Its requests are sent one after the other. A cancelled task waits for the end of its request, because only then it
    is known whether this candidate has a Lease to release.
    """

    def __init__(
        self,
        address: KubernetesAddress,
        advertise: str,
        observer: LeaseObserver,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self.address = address
        self.over = asyncio.Event()
        self._client = KubernetesClient(address, "election")
        self._observer = observer
        self._clock = clock
        self._wall = wall
        self._advertise = advertise
        self._identity = f"{advertise}#{secrets.token_hex(8)}"
        self._timeout = address.request_seconds
        self._turn = asyncio.Lock()
        self._held: Lease | None = None
        self._wrote = False
        self._in_doubt: tuple[Lease | None] | None = None
        """The Lease on which the last write was conditional (None: there was no Lease), if the outcome of that write is
        unknown.
        """

    async def win(self) -> float:
        """Wait until this candidate holds the Lease; return the time at which the winning request was sent (monotonic).

        Raises `Misconfigured`, `StorageUnavailable`. After an error this candidate may hold the Lease all the same,
        until `release`.
        """
        await self._client.open()
        while True:
            lease = await self._look()
            if lease is not None and not lease.belongs_to(self.address.name):
                raise Misconfigured(
                    f"the Lease {self.address.name} in the namespace {self._client.namespace} is not Milepost's, or"
                    " has lost its labels: delete it, or use another name in the address"
                )
            ours = lease is not None and lease.holder == self._identity
            wait = 0.0 if ours else self._observer.wait(lease)
            if wait <= 0:
                sent = self._clock()
                if await self._write(lease):
                    return sent
            else:
                await self._pause(min(self.address.retry_period / _LOOKS, wait))

    async def renew(self) -> float | None:
        """Renew the Lease; return the time at which the successful request was sent (monotonic).

        None means that this candidate does not hold the Lease any more. Raises `BackendError` while it is unknown who
        holds it.
        """
        lease = self._held or await self._look()
        for _ in range(_ROUNDS):
            if lease is None or lease.holder != self._identity:
                log.warning("our Lease is %s", "gone" if lease is None else f"held by {lease.holder or 'nobody'}")
                return None
            sent = self._clock()
            if await self._write(lease):
                return sent
            lease = await self._look()
        raise StorageUnavailable("another program keeps changing the Lease")

    async def release(self) -> None:
        """Release the Lease, if this candidate holds it, so that another candidate can take it at once.

        Idempotent. The call takes a limited time and never raises. A Lease that cannot be released now is left to
        expire.
        """
        self.over.set()
        try:
            async with asyncio.timeout(self.address.renew_deadline):
                await self._release()
        except (BackendError, TimeoutError) as error:
            log.warning("cannot release the Lease, which is left to run out: %s", error)
        finally:
            await self._client.close()

    async def _release(self) -> None:
        async with self._turn:  # wait for the request in flight
            pass
        lease = self._held or (await self._look(last=True) if self._wrote else None)
        for _ in range(_ROUNDS):
            if not (lease is not None and lease.holder == self._identity) and not self._may_land_on(lease):
                return
            if lease is None:
                answer = await self._send("POST", unclaimed(self._claim(), self._wall()), lease, last=True)
            else:
                answer = await self._send("PUT", released(lease, self._wall()), lease, last=True)
            if answer.done:
                self._held, self._wrote = None, False
                return
            if answer.status not in (404, 409):
                raise backend_error(answer, "release the Lease")
            lease = await self._look(last=True)
        raise StorageUnavailable("another program keeps changing the Lease")

    def _may_land_on(self, lease: Lease | None) -> bool:
        """Return whether a write of this candidate, whose outcome is unknown, can still change ``lease``.

        It can only if no other candidate has changed the Lease since that write was sent.
        """
        if self._in_doubt is None:
            return False
        (base,) = self._in_doubt
        return (base and base.version) == (lease and lease.version)

    async def _look(self, *, last: bool = False) -> Lease | None:
        async with self._turn:
            self._check(last)
            return await finish(look(self._client, self._observer, self._clock, self._timeout))

    async def _write(self, lease: Lease | None) -> bool:
        """Take or renew the Lease, which was last read as ``lease``; return False if it was changed since.

        Raises `BackendError`.
        """
        method = "POST" if lease is None else "PUT"
        answer = await self._send(method, claimed(lease, self._claim(), self._wall()), lease)
        if answer.done:
            return True
        if answer.status == 409 or (answer.status == 404 and lease is not None):
            return False
        raise backend_error(answer, "write the Lease")

    def _claim(self) -> Claim:
        address = self.address
        return Claim(address.name, self._client.namespace, self._identity, self._advertise, address.lease_duration)

    async def _send(self, method: str, body: bytes, base: Lease | None, *, last: bool = False) -> ApiAnswer:
        async with self._turn:
            self._check(last)
            self._held, self._wrote = None, True
            return await finish(self._exchange(method, body, base))

    async def _exchange(self, method: str, body: bytes, base: Lease | None) -> ApiAnswer:
        asked = self._clock()
        path = lease_path(self._client.namespace, "" if method == "POST" else self.address.name)
        self._in_doubt = (base,)
        try:
            answer = await self._client.request(method, path, body=body, timeout=self._timeout)
        except NotSent:
            self._in_doubt = None
            raise
        if answer.fate is not Fate.UNKNOWN:
            self._in_doubt = None
        if answer.done:
            self._held = Lease.read(answer.body)
            self._observer.note(self._held, asked)
        return answer

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()

    def _check(self, last: bool) -> None:
        if self.over.is_set() and not last:
            raise StorageUnavailable("the candidacy was withdrawn")

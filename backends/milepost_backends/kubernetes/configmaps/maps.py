"""Reads and writes the ConfigMaps of a namespace.

Each write is conditional on the version that was read, and waits until the byte budget allows it, which limits the
bytes that Milepost writes to etcd.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from milepost_backends.contract import Misconfigured, StorageFull, StorageUnavailable
from milepost_backends.kubernetes.address import selector
from milepost_backends.kubernetes.client import METADATA, METADATA_LIST, WHOLE, KubernetesClient
from milepost_backends.kubernetes.configmaps.objects import HEAD, ConfigMap, ConfigMaps, Frozen, Metadata, encode
from milepost_backends.kubernetes.errors import SPACE_EXCEEDED, ApiAnswer, backend_error

_PAGE: Final = "250"
_PAGE_TIMEOUTS: Final = 4
"""The factor by which the timeout of a page of a listing exceeds that of other answers: a page may have eight
megabytes.
"""
_LISTINGS: Final = 3
"""The most attempts at a listing: etcd may compact the version of the listing before all of its pages are read."""
_GONE: Final = 410
"""The HTTP status for a page of a listing whose version etcd has compacted."""
_PAUSE_SECONDS: Final = 5.0
"""The seconds without writes after etcd answered that it has no space left."""

T = TypeVar("T")

_BURST_SECONDS: Final = 4.0


class Maps:
    """The ConfigMaps of one namespace in the API.

    `create` and `replace` wait until ``budget`` allows their bytes. A ConfigMap without data is created without a wait,
    and the next write waits longer instead: it may be the next segment of a journal, without which every group writes
    the full last segment again. For some seconds after etcd answered that it has no space left, both raise
    `StorageFull` and send nothing.
    """

    def __init__(self, client: KubernetesClient, clock: Callable[[], float] = time.monotonic) -> None:
        self.client = client
        self.budget = ByteBudget(client.address.bytes_per_second, clock)
        self._clock = clock
        self._paused_until = -1.0

    async def listed(self, labels: Mapping[str, str], *, data: bool) -> list[ConfigMap]:
        """Return the ConfigMaps with these labels, with or without their data, as of one moment.

        The request names no ``resourceVersion``, because the API server then reads from etcd, and not from a cache that
        may be behind. Raises `BackendError`.
        """
        for _ in range(_LISTINGS):
            items = await self._pages(selector(labels), WHOLE if data else METADATA_LIST)
            if items is not None:
                return items
        raise StorageUnavailable("cannot list the ConfigMaps: each listing takes longer than etcd keeps its version")

    async def _pages(self, selected: str, accept: str) -> list[ConfigMap] | None:
        """Return all pages of a listing of ConfigMaps. ``selected`` is the label selector, and ``accept`` the
        ``Accept`` header.

        None means that etcd has compacted the version of the listing meanwhile, so that it must begin anew.
        """
        items: list[ConfigMap] = []
        query = {"labelSelector": selected, "limit": _PAGE}
        while True:
            timeout = self.client.timeout * _PAGE_TIMEOUTS
            answer = await self.client.request("GET", self._path(), query=query, accept=accept, timeout=timeout)
            if answer.status == _GONE:
                return None
            if answer.status == 404:  # not from a Kubernetes API, which lists even a missing namespace as empty
                raise Misconfigured(f"cannot list the ConfigMaps: what answers {answer} is no Kubernetes API")
            page = _decoded(answer, ConfigMaps, "list the ConfigMaps")
            items.extend(page.items or [])
            if not page.metadata.token:
                return items
            query["continue"] = page.metadata.token

    async def read(self, name: str, *, data: bool) -> ConfigMap | None:
        """Return the ConfigMap ``name``, with or without its data; None if there is none. Raises `BackendError`."""
        answer = await self.client.request("GET", self._path(name), accept=WHOLE if data else METADATA)
        return None if answer.status == 404 else _decoded(answer, ConfigMap, f"read the ConfigMap {name}")

    async def replace(self, metadata: Metadata, data: Mapping[str, str], frozen: Frozen | None = None) -> ApiAnswer:
        """Replace a ConfigMap by PUT, on the condition that it has not changed since ``metadata`` was read.

        ``frozen`` is the `ConfigMap.frozen` that was read. If it is not None, the ConfigMap is immutable: only its
        metadata can be replaced, and ``data`` must be the present data. Raises `NotSent`, `NoAnswer`, `StorageFull`,
        and `StorageUnavailable` if the stored object differs from the sent one.
        """
        body = encode(metadata, data, frozen)
        return _require_as_sent(await self._write("PUT", self._path(metadata.check().name), body), metadata)

    async def create(self, metadata: Metadata, data: Mapping[str, str]) -> ApiAnswer:
        """Create a ConfigMap by POST, and return the answer. Raises the errors of `replace`."""
        body = encode(metadata, data)
        return _require_as_sent(await self._write("POST", self._path(), body, waits=bool(data)), metadata)

    async def delete(self, metadata: Metadata) -> ApiAnswer:
        """Delete a ConfigMap, on the condition that it has not changed since ``metadata`` was read; return the answer.

        Raises `NotSent`, `NoAnswer`.
        """
        condition = {"uid": metadata.check().uid, "resourceVersion": metadata.resource_version}
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": condition})
        return await self.client.request("DELETE", self._path(metadata.name), body=body)

    async def _write(self, method: str, path: str, body: bytes, *, waits: bool = True) -> ApiAnswer:
        self.check_room()
        if waits:
            await self.budget.spend(len(body))
        else:
            self.budget.take(len(body))
        answer = await self.client.request(method, path, body=body, accept=METADATA)
        if answer.is_out_of_space:
            self._paused_until = self._clock() + _PAUSE_SECONDS
        return answer

    def check_room(self) -> None:
        """Raise `StorageFull` for some seconds after etcd had no space left, since each further write takes space."""
        if self._clock() < self._paused_until:
            raise StorageFull(f"etcd answered {SPACE_EXCEEDED}; nothing is written for {_PAUSE_SECONDS:g} s")

    def _path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.client.namespace}/configmaps" + (f"/{name}" if name else "")


def metadata_of(answer: ApiAnswer, doing: str) -> Metadata:
    """Return the metadata in the answer to a write. ``doing`` completes the error message "cannot …".

    Raises `BackendError` if the write failed, or if the answer has no version on which a later write could be
    conditional.
    """
    return _decoded(answer, ConfigMap, doing).metadata.check()


def _require_as_sent(answer: ApiAnswer, sent: Metadata) -> ApiAnswer:
    """Return ``answer`` to a write, unless the stored object lacks the head or the labels that were ``sent``.

    An admission webhook or policy can alter a write, and no replica could take the journal over from the result. In
    that case this raises `StorageUnavailable`.
    """
    if answer.done:
        stored = _decoded(answer, ConfigMap, f"write the ConfigMap {sent.name}").metadata
        is_labelled = stored.labels.items() >= sent.labels.items()
        if not is_labelled or stored.annotations.get(HEAD) != sent.annotations.get(HEAD):
            raise StorageUnavailable(
                f"the ConfigMap {sent.name} was stored with another head or other labels than were sent: look for an"
                " admission webhook or policy that alters ConfigMaps"
            )
    return answer


def _decoded(answer: ApiAnswer, kind: type[T], doing: str) -> T:
    if not answer.done:
        raise backend_error(answer, doing)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.MsgspecError as error:
        raise StorageUnavailable(f"cannot {doing}: the answer is not valid: {error}") from error


class ByteBudget:
    """Limits writes to ``bytes_per_second`` in the long run, and to the bytes of four seconds at once.

    etcd keeps overwritten data for up to ten minutes, so a megabyte a second would fill its quota. It would then accept
    no create or update in the whole cluster, not even the Leases of nodes. ``clock`` returns monotonic seconds.
    """

    def __init__(self, bytes_per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._most = bytes_per_second * _BURST_SECONDS
        self._left = self._most
        self._as_of = clock()

    @property
    def wait_seconds(self) -> float:
        """Return the seconds to wait before the next write.

        A single write may exceed the rest of the budget; the write after it then waits longer.
        """
        self._fill()
        return max(0.0, -self._left / self._rate)

    def take(self, size: int) -> None:
        """Count ``size`` bytes as written, without a wait. Later writes wait longer instead."""
        self._fill()
        self._left -= size

    async def spend(self, size: int) -> None:
        """Wait until the budget allows a write, and count ``size`` bytes as written. A cancelled wait counts none."""
        seconds = self.wait_seconds
        self.take(size)
        if seconds > 0:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                self.take(-size)
                raise

    def _fill(self) -> None:
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._as_of) * self._rate)
        self._as_of = now

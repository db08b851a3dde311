"""Read ConfigMaps over the API, write them under a condition, and count the bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from backends.contract import StorageFull, StorageUnavailable
from backends.kubernetes.client import METADATA, METADATA_LIST, WHOLE, KubernetesClient
from backends.kubernetes.configmaps.budget import ByteBudget
from backends.kubernetes.configmaps.objects import HEAD, ConfigMap, ConfigMaps, Frozen, Metadata, encode
from backends.kubernetes.errors import SPACE_EXCEEDED, ApiAnswer, backend_error
from backends.kubernetes.labels import selector

_PAGE: Final = "250"
_PAGE_TIMEOUTS: Final = 4
"""A page of a listing may take so many times as long as another answer, since it holds up to eight megabytes."""
_LISTINGS: Final = 3
_GONE: Final = 410
_REST_SECONDS: Final = 5.0

T = TypeVar("T")


class Maps:
    """Read and write the ConfigMaps of one namespace.

    After etcd had no room left, writes raise `StorageFull` for some seconds.
    """

    def __init__(self, client: KubernetesClient, clock: Callable[[], float] = time.monotonic) -> None:
        self.client = client
        self.budget = ByteBudget(client.address.bytes_per_second, clock)
        self._clock = clock
        self._resting_until = -1.0

    async def listed(self, labels: Mapping[str, str], *, data: bool) -> list[ConfigMap]:
        """Return the ConfigMaps with these labels, with or without their data, as of one moment.

        No version is asked for, so that the API server asks etcd: with any version it may answer from a stale cache.
        Raises `BackendError`.
        """
        for _ in range(_LISTINGS):
            items = await self._pages(selector(labels), WHOLE if data else METADATA_LIST)
            if items is not None:
                return items
        raise StorageUnavailable("cannot list the ConfigMaps: each listing takes longer than etcd keeps its version")

    async def _pages(self, selected: str, accept: str) -> list[ConfigMap] | None:
        """Return all pages of a listing; None if etcd compacted the version of the listing meanwhile."""
        items: list[ConfigMap] = []
        query = {"labelSelector": selected, "limit": _PAGE}
        while True:
            timeout = self.client.timeout * _PAGE_TIMEOUTS
            answer = await self.client.request("GET", self._path(), query=query, accept=accept, timeout=timeout)
            if answer.status == _GONE:
                return None
            page = _decoded(answer, ConfigMaps, "list the ConfigMaps")
            items.extend(page.items or [])
            if not page.metadata.token:
                return items
            query["continue"] = page.metadata.token

    async def read(self, name: str, *, data: bool) -> ConfigMap | None:
        """Return one ConfigMap, with or without its data; None if there is none. Raises `BackendError`."""
        answer = await self.client.request("GET", self._path(name), accept=WHOLE if data else METADATA)
        return None if answer.status == 404 else _decoded(answer, ConfigMap, f"read the ConfigMap {name}")

    async def replace(self, metadata: Metadata, data: Mapping[str, str], frozen: Frozen | None = None) -> ApiAnswer:
        """Replace a ConfigMap by PUT, on the condition that nothing changed since ``metadata`` was read.

        If it is ``frozen``, only its metadata can be replaced. Raises `NotSent`, `NoAnswer`, `StorageFull`, and
        `StorageUnavailable` if it was written, but not as it was sent.
        """
        body = encode(metadata, data, frozen)
        return _kept(await self._write("PUT", self._path(metadata.check().name), body), metadata)

    async def create(self, metadata: Metadata, data: Mapping[str, str]) -> ApiAnswer:
        """Create a ConfigMap by POST. Raises `NotSent`, `NoAnswer`, `StorageFull`, and as `replace` does."""
        return _kept(await self._write("POST", self._path(), encode(metadata, data)), metadata)

    async def delete(self, metadata: Metadata) -> ApiAnswer:
        """Delete a ConfigMap on the same condition. Raises `NotSent`, `NoAnswer`."""
        condition = {"uid": metadata.check().uid, "resourceVersion": metadata.resource_version}
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": condition})
        return await self.client.request("DELETE", self._path(metadata.name), body=body)

    async def _write(self, method: str, path: str, body: bytes) -> ApiAnswer:
        self.check_room()
        await self.budget.spend(len(body))
        answer = await self.client.request(method, path, body=body, accept=METADATA)
        if SPACE_EXCEEDED in answer.message:
            self._resting_until = self._clock() + _REST_SECONDS
        return answer

    def check_room(self) -> None:
        """Raise `StorageFull` for a while after etcd had no room: every further write would make that worse."""
        if self._clock() < self._resting_until:
            raise StorageFull(f"etcd answered {SPACE_EXCEEDED}; nothing is written for {_REST_SECONDS:g} s")

    def _path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.client.namespace}/configmaps" + (f"/{name}" if name else "")


def metadata_of(answer: ApiAnswer, doing: str) -> Metadata:
    """Return the metadata that a write answered with. Raises `BackendError` if there is none, or it has no version."""
    return _decoded(answer, ConfigMap, doing).metadata.check()


def _kept(answer: ApiAnswer, sent: Metadata) -> ApiAnswer:
    """Return the answer, unless what was written lacks the head or the labels that were sent.

    A webhook or a policy can alter what is written, and nobody could take over from that. Raises `StorageUnavailable`.
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

"""Keeps a label on the leader's Pod, by which a Service finds it.

The label proves nothing: a Pod that has it and does not lead redirects its callers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from milepost_backends.contract import BackendError, StorageUnavailable
from milepost_backends.kubernetes.address import INSTANCE, LEADER, ROLE, KubernetesAddress, selector
from milepost_backends.kubernetes.client import METADATA, METADATA_LIST, KubernetesClient
from milepost_backends.kubernetes.errors import backend_error
from milepost_backends.waiting import finish

log = logging.getLogger("milepost.election")

_LOOK_AGAIN_SECONDS: Final = 30.0
_MERGE_PATCH: Final = "application/merge-patch+json"


class LeaderLabel:
    """The label ``milepost/role: leader`` of the Pods of one deployment, as the Pod ``pod`` keeps it.

    It has its own connections, so that its requests never delay the renewal of the Lease.
    """

    def __init__(self, address: KubernetesAddress, pod: str, *, look_again: float = _LOOK_AGAIN_SECONDS) -> None:
        self._client = KubernetesClient(address, "leader's label", timeout=address.request_seconds)
        self._name = address.name
        self._pod = pod
        self._again = address.retry_period
        self._look_again = look_again

    async def open(self) -> None:
        """Remove the label from this replica's own Pod, which may have led before this start. Raises `Misconfigured`.

        Any other failure is only logged: the label misleads callers only until another replica leads.
        """
        await self._client.open()
        await self.remove()

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.close()

    async def keep(self, leads: Callable[[], bool]) -> None:
        """Set the label, and remove it from other Pods, while ``leads()``; a failure is retried."""
        while leads():
            pause = self._look_again
            try:
                await self._patch(self._pod, LEADER)
                await self._remove_from_others(leads)
            except BackendError as error:
                log.warning("cannot label the leader's Pod, and try again: %s", error)
                pause = self._again
            await asyncio.sleep(pause)

    async def remove(self) -> None:
        """Remove the label from this replica's own Pod, in bounded time; a failure is logged."""
        try:
            await self._patch(self._pod, None)
        except BackendError as error:
            log.warning("cannot remove the leader's label from this Pod: %s", error)

    async def _remove_from_others(self, leads: Callable[[], bool]) -> None:
        """Remove the label from Pods that had it while this replica led, on the version then: the next leader sets it
        later.
        """
        labelled = await self._labelled()
        for name, version in labelled.items():
            if name != self._pod and leads():
                await self._patch(name, None, version)

    async def _labelled(self) -> Mapping[str, str]:
        """Return names and versions of the deployment's Pods that have the label."""
        query = {"labelSelector": selector({INSTANCE: self._name, ROLE: LEADER})}
        answer = await self._client.request("GET", self._path(), query=query, accept=METADATA_LIST)
        if not answer.done:
            raise backend_error(answer, "list the Pods with the leader's label")
        try:
            pods = msgspec.json.decode(answer.body, type=_Pods)
        except msgspec.MsgspecError as error:
            raise StorageUnavailable(f"the answer is not a list of Pods: {error}") from error
        return {pod.metadata.name: pod.metadata.version for pod in pods.items}

    async def _patch(self, pod: str, role: str | None, version: str | None = None) -> None:
        """Set or remove the label of a Pod; of another Pod only if it still exists, at ``version``."""
        metadata: dict[str, Any] = {"labels": {ROLE: role}}
        if version is not None:
            metadata["resourceVersion"] = version
        body = msgspec.json.encode({"metadata": metadata})
        answer = await finish(
            self._client.request("PATCH", self._path(pod), body=body, content_type=_MERGE_PATCH, accept=METADATA)
        )
        changed_since = version is not None and answer.status in (404, 409)
        if not answer.done and not changed_since:
            raise backend_error(answer, f"label the Pod {pod}")

    def _path(self, pod: str = "") -> str:
        return f"/api/v1/namespaces/{self._client.namespace}/pods" + (f"/{pod}" if pod else "")


class _Metadata(msgspec.Struct):
    name: str
    version: str = msgspec.field(name="resourceVersion")


class _Pod(msgspec.Struct):
    metadata: _Metadata


class _Pods(msgspec.Struct):
    items: list[_Pod]

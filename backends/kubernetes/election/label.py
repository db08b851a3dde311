"""The label on the leader's Pod, by which a Service finds it.

It is a signpost and proves nothing: a Pod that wears it and does not lead sends its callers on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from backends.contract import BackendError, StorageUnavailable
from backends.kubernetes.address import KubernetesAddress
from backends.kubernetes.client import METADATA, METADATA_LIST, KubernetesClient
from backends.kubernetes.errors import backend_error
from backends.kubernetes.labels import INSTANCE, LEADER, ROLE, selector
from backends.waiting import finish

log = logging.getLogger("milepost.election")

_LOOK_AGAIN_SECONDS: Final = 30.0
_MERGE_PATCH: Final = "application/merge-patch+json"


class LeaderLabel:
    """The label ``milepost/role: leader`` of the Pods of one deployment, as seen from the Pod ``pod``.

    Over connections of its own: whatever becomes of it, the Lease is renewed.
    """

    def __init__(self, address: KubernetesAddress, pod: str, *, look_again: float = _LOOK_AGAIN_SECONDS) -> None:
        self._client = KubernetesClient(address, "leader's label", timeout=address.request_seconds)
        self._name = address.name
        self._pod = pod
        self._again = address.retry_period
        self._look_again = look_again

    async def open(self) -> None:
        """Take the label off our own Pod, which may have led before it was started anew. Raises `Misconfigured`.

        What else goes wrong is logged: nobody is sent a wrong way for longer than until another one leads.
        """
        await self._client.open()
        await self.take_off()

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        await self._client.close()

    async def keep(self, leads: Callable[[], bool]) -> None:
        """Wear the label and take it off the others, while ``leads()``; whatever fails is tried again."""
        while leads():
            pause = self._look_again
            try:
                await self._patch(self._pod, LEADER)
                await self._take_off_others(leads)
            except BackendError as error:
                log.warning("cannot label the leader's Pod: %s", error)
                pause = self._again
            await asyncio.sleep(pause)

    async def take_off(self) -> None:
        """Take it off our own Pod, bounded; a failure is logged."""
        try:
            await self._patch(self._pod, None)
        except BackendError as error:
            log.warning("cannot take the leader's label off: %s", error)

    async def _take_off_others(self, leads: Callable[[], bool]) -> None:
        """Only those that wore it at a moment when we led, as they were then: whoever leads next put it on later."""
        wearing = await self._wearing()
        for name, version in wearing.items():
            if name != self._pod and leads():
                await self._patch(name, None, version)

    async def _wearing(self) -> Mapping[str, str]:
        """Names and versions of the deployment's Pods that wear it."""
        query = {"labelSelector": selector({INSTANCE: self._name, ROLE: LEADER})}
        answer = await self._client.request("GET", self._path(), query=query, accept=METADATA_LIST)
        if not answer.done:
            raise backend_error(answer, "list the Pods that wear the leader's label")
        try:
            pods = msgspec.json.decode(answer.body, type=_Pods)
        except msgspec.MsgspecError as error:
            raise StorageUnavailable(f"the answer is no list of Pods: {error}") from error
        return {pod.metadata.name: pod.metadata.version for pod in pods.items}

    async def _patch(self, pod: str, role: str | None, version: str | None = None) -> None:
        """Set the label of a Pod, or take it off; of another Pod only if it is as it was at ``version``, and there."""
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

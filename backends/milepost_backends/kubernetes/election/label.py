"""Keeps a label on the leader's Pod, by which a Kubernetes Service finds the leader.

A wrong label is harmless: a Pod that has the label and does not lead redirects clients to the leader.
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
    """Sets the label ``milepost/role: leader`` on the Pod ``pod``, and removes it from the other Pods of the
    deployment.

    It has its own connections, so that its requests never delay the renewal of the Lease.
    """

    def __init__(self, address: KubernetesAddress, pod: str, *, look_again: float = _LOOK_AGAIN_SECONDS) -> None:
        self._client = KubernetesClient(address, "leader's label", timeout=address.request_seconds)
        self._name = address.name
        self._pod = pod
        self._again = address.retry_period
        self._look_again = look_again

    async def open(self) -> None:
        """Remove the label from this replica's own Pod, which may have led before a restart. Raises `Misconfigured`.

        Any other failure is only logged: a wrong label misleads clients only until another replica leads.
        """
        await self._client.open()
        await self.remove()

    async def close(self) -> None:
        """Close the connections to the Kubernetes API. Idempotent."""
        await self._client.close()

    async def keep(self, leads: Callable[[], bool]) -> None:
        """Set the label on this Pod, and remove it from other Pods, for as long as ``leads()`` is True. Failures are
        retried.
        """
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
        """Remove the label from this replica's own Pod. This takes a limited time, and a failure is only logged."""
        try:
            await self._patch(self._pod, None)
        except BackendError as error:
            log.warning("cannot remove the leader's label from this Pod: %s", error)

    async def _remove_from_others(self, leads: Callable[[], bool]) -> None:
        """Remove the label from all other Pods of the deployment, while this replica leads.

        Each removal is conditional on the version that was listed, so it cannot remove the label that a next leader
        sets later.
        """
        labelled = await self._labelled()
        for name, version in labelled.items():
            if name != self._pod and leads():
                await self._patch(name, None, version)

    async def _labelled(self) -> Mapping[str, str]:
        """Return the Pods of the deployment that have the label: the resource version of each by its name."""
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
        """Set the label ``milepost/role`` of ``pod`` to ``role``, or remove it if ``role`` is None.

        With ``version``, do so only if the Pod still has that version.
        """
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

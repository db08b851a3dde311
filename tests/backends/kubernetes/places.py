"""Short words for what tests do to pointers in Kubernetes, and behind their back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.configmaps.memory import ChainMemory
from milepost_backends.kubernetes.configmaps.objects import HEAD, ConfigMapLayout
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from testbed.kubernetes.admin import MERGE_PATCH
from tests.contracts.journals import ROOT
from tests.support.servers.kubernetes import NAME, Site
from tests.support.waiting import until

LAYOUT = ConfigMapLayout(NAME, ROOT)
NEVER = 3600.0


@asynccontextmanager
async def opened(
    address: KubernetesAddress, *, timeout: float = 60.0, check_seconds: float = NEVER
) -> AsyncIterator[KubernetesPointers]:
    """A store, open; it has all the time in the world for that."""
    store = KubernetesPointers(address, timeout=60.0, check_seconds=check_seconds)
    await store.open()
    store._client.timeout = timeout
    try:
        yield store
    finally:
        await store.close()


def memory_of(store: KubernetesPointers) -> ChainMemory:
    """What the store knows of the root journal."""
    return store._journals[ROOT].memory


async def spare_is_there(store: KubernetesPointers) -> None:
    """Wait until the segment after the last one is made, so that the last one can be sealed."""

    async def made() -> bool:
        return memory_of(store).spare is not None

    await until(made)


async def witness_is_current(store: KubernetesPointers) -> None:
    """Wait until the last revision is recorded, after which nothing more is written in the background."""

    async def recorded() -> bool:
        return store._journals[ROOT]._is_recorded()

    await until(recorded)


class Outsider:
    """Somebody else who may do everything, and knows the ConfigMaps of the namespace."""

    def __init__(self, site: Site) -> None:
        self._admin = site.api.admin
        self._path = f"/api/v1/namespaces/{site.namespace}/configmaps"

    def all(self) -> dict[str, Any]:
        """Every ConfigMap by its name."""
        return {item["metadata"]["name"]: item for item in self._admin.ask("GET", self._path)["items"]}

    def segments(self) -> list[str]:
        """The names of the root journal's segments, in order."""
        return sorted(name for name in self.all() if LAYOUT.number(name) is not None)

    def states(self) -> list[str]:
        """What they are."""
        return [self.head(name)["state"] for name in self.segments()]

    def get(self, name: str) -> Any:
        """One ConfigMap."""
        return self._admin.ask("GET", f"{self._path}/{name}")

    def head(self, name: str) -> Any:
        """What is written in its head."""
        return json.loads(self.get(name)["metadata"]["annotations"][HEAD])

    def create(self, name: str, **content: Any) -> None:
        """Make one."""
        metadata = {"name": name, **content.pop("metadata", {})}
        self._admin.ask("POST", self._path, {"metadata": metadata, **content})

    def patch(self, name: str, change: object) -> None:
        """Merge a change into one."""
        self._admin.ask("PATCH", f"{self._path}/{name}", change, content_type=MERGE_PATCH)

    def put(self, name: str, content: Any) -> None:
        """Put this in its place, as ``kubectl replace`` does."""
        metadata = {**content.get("metadata", {}), "name": name}
        self._admin.ask("PUT", f"{self._path}/{name}", {**content, "metadata": metadata})

    def delete(self, name: str) -> None:
        """Delete one."""
        self._admin.ask("DELETE", f"{self._path}/{name}")


def wipe(outsider: Outsider, name: str) -> None:
    """As ``kubectl replace`` does with a file of somebody's own."""
    outsider.put(name, {"data": {"theirs": "1"}})


def backup(outsider: Outsider, name: str) -> dict[str, Any]:
    """What it takes to bring a ConfigMap back."""
    item = outsider.get(name)
    kept = {field: item["metadata"].get(field) or {} for field in ("labels", "annotations")}
    return {"metadata": kept, "data": item.get("data") or {}}

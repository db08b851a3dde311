"""Pointers in Kubernetes: segments and their entries, the witness, the deployment marker and the next segment.

Beside them the Lease. The API takes nothing that is not one of its objects, so bits are flipped and bytes changed in
the texts that it keeps.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from milepost_backends.kubernetes.configmaps.objects import HEAD
from milepost_backends.kubernetes.election.election import KubernetesElection
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from milepost_backends.local.blobs import LocalBlobs
from testbed.kubernetes.admin import JSON_PATCH
from tests.backends.kubernetes.places import LAYOUT, Outsider, backup
from tests.contracts.places import Services
from tests.corrupt.shape import EVERYTHING, Damage, Kind, Scene, Store, Thing, everything
from tests.support.servers import kubernetes
from tests.support.servers.kubernetes import MIDDLING, Site
from tests.support.servers.replicas import Backends

_WHOLE = frozenset({Damage.EMPTY, Damage.OLDER, Damage.GONE})
_CHECK_SECONDS = 0.5


class KubernetesScene(Scene):
    """A namespace of its own, and a directory for blobs."""

    def __init__(self, directory: Path, site: Site) -> None:
        self._directory = directory
        self._site = site
        self._outsider = Outsider(site)

    def build(self, advertise: str) -> Backends:
        address = self._site.address(**MIDDLING)
        return Backends(
            KubernetesPointers(address, check_seconds=_CHECK_SECONDS, accept_loss=self.accept_loss),
            KubernetesElection(address, advertise),
            LocalBlobs(self._directory / "blobs"),
        )

    async def thing(self, kind: str, chance: random.Random) -> Thing:
        if kind == EVERYTHING:
            return everything(self._delete_all)
        if kind.startswith("Lease"):
            return self._lease() if kind == "Lease" else self._holder()
        names = await asyncio.to_thread(self._names)
        name = names[kind.removesuffix(" (head)").removesuffix(" (an entry)")]
        if kind.endswith("(head)"):
            return self._head(name)
        if kind.endswith("(an entry)"):
            keys = await asyncio.to_thread(lambda: sorted(self._outsider.get(name).get("data") or {}))
            return self._entry(name, chance.choice(keys))
        return self._whole(name)

    def _names(self) -> dict[str, str]:
        """Which ConfigMap is what, as of now; what is gone or makes no sense is where it was."""
        segments = self._outsider.segments() or [LAYOUT.segment(1)]
        written = [name for name in segments if self._outsider.get(name).get("data")] or segments
        following = [name for name in segments if name > written[-1]]
        after = LAYOUT.segment((LAYOUT.number(written[-1]) or 1) + 1)
        return {
            "newest segment": written[-1],
            "next segment": following[0] if following else after,
            "witness": LAYOUT.witness,
            "deployment marker": LAYOUT.deployment_marker,
        }

    def _whole(self, name: str) -> Thing:
        def read() -> bytes | None:
            return json.dumps(backup(self._outsider, name)).encode() if name in self._outsider.all() else None

        def write(content: bytes | None) -> None:
            is_there = name in self._outsider.all()
            if content is None:
                if is_there:
                    self._outsider.delete(name)
                return
            kept: dict[str, Any] = json.loads(content or b"{}")
            if is_there:
                self._outsider.put(name, kept)
            else:
                self._outsider.create(name, **kept)

        return _thing(read, write)

    def _delete_all(self) -> None:
        """As ``kubectl delete configmaps,leases --all`` does."""
        self._site.api.admin.ask("DELETE", self._site.lease_path())
        for name in self._outsider.all():
            self._outsider.delete(name)

    def _lease(self) -> Thing:
        def read() -> bytes | None:
            lease = self._site.lease()
            return None if lease is None else json.dumps(lease["spec"]).encode()

        def write(content: bytes | None) -> None:
            admin, path, lease = self._site.api.admin, self._site.lease_path(), self._site.lease()
            spec = json.loads(content or b"{}")
            if content is None:
                admin.ask("DELETE", path)
            elif lease is None:
                metadata = {"name": path.rpartition("/")[2], "namespace": self._site.namespace}
                admin.ask("POST", self._site.lease_path(""), {"metadata": metadata, "spec": spec})
            else:  # whatever its version is by now: the leader renews it meanwhile
                replaced = [{"op": "replace", "path": "/spec", "value": spec}]
                admin.ask("PATCH", path, replaced, content_type=JSON_PATCH)

        return _thing(read, write)

    def _holder(self) -> Thing:
        def read() -> bytes | None:
            lease = self._site.lease()
            return None if lease is None else str(lease["spec"].get("holderIdentity", "")).encode()

        def write(content: bytes | None) -> None:
            self._site.edit_lease({"spec": {"holderIdentity": None if content is None else _text(content)}})

        return _thing(read, write)

    def _head(self, name: str) -> Thing:
        def read() -> bytes | None:
            text = self._outsider.get(name)["metadata"].get("annotations", {}).get(HEAD)
            return None if text is None else str(text).encode()

        def write(content: bytes | None) -> None:
            text = None if content is None else _text(content)
            self._outsider.patch(name, {"metadata": {"annotations": {HEAD: text}}})

        return _thing(read, write)

    def _entry(self, name: str, key: str) -> Thing:
        def read() -> bytes | None:
            text = (self._outsider.get(name).get("data") or {}).get(key)
            return None if text is None else str(text).encode()

        def write(content: bytes | None) -> None:
            self._outsider.patch(name, {"data": {key: None if content is None else _text(content)}})

        return _thing(read, write)


def _thing(read: Callable[[], bytes | None], write: Callable[[bytes | None], None]) -> Thing:
    async def reads() -> bytes | None:
        return await asyncio.to_thread(read)

    async def writes(content: bytes | None) -> None:
        await asyncio.to_thread(write, content)

    return Thing(reads, writes)


def _text(content: bytes) -> str:
    """As the API takes it; what is no UTF-8 becomes a character that says so."""
    return content.decode("utf-8", "replace")


@asynccontextmanager
async def _open(directory: Path, services: Services) -> AsyncIterator[Scene]:
    yield KubernetesScene(directory, kubernetes.site(kubernetes.shared_api(services)))


_NO_RECORD = "nothing of a record is in it, and it is made anew"

STORE = Store(
    "kubernetes",
    (
        Kind("newest segment", _WHOLE),
        Kind("newest segment (head)", weight=3),
        Kind("newest segment (an entry)", weight=3),
        Kind("next segment", frozenset({Damage.EMPTY, Damage.GONE})),
        Kind("next segment (head)", frozenset(Damage) - {Damage.OLDER}),
        Kind("witness", _WHOLE, harmless=_NO_RECORD),
        Kind("witness (head)", harmless=_NO_RECORD, weight=2),
        Kind("deployment marker", _WHOLE, harmless=_NO_RECORD),
        Kind("deployment marker (head)", harmless=_NO_RECORD, weight=2),
        Kind("Lease", _WHOLE, harmless=_NO_RECORD),
        Kind("Lease (holder)", harmless=_NO_RECORD),
        Kind(EVERYTHING, frozenset({Damage.GONE}), under_leader=frozenset()),
    ),
    _open,
)

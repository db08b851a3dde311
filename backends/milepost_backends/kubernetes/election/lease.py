"""Read and write the Lease that an election uses.

Its fields are used as in client-go's leader election. ``renewTime`` and ``acquireTime`` are for people: clocks of
different machines are never compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

import msgspec

from milepost_backends.contract import StorageUnavailable
from milepost_backends.kubernetes.labels import DEPLOYMENT, are_ours, labels_of

ADVERTISE: Final = "milepost/advertise"
"""This annotation holds the URL that other replicas are given."""
RELEASED: Final = "milepost/released"
"""This annotation holds the identity that released the Lease; nobody else writes it, nor while the Lease is held."""

_CARRIED: Final = ("name", "namespace", "uid", "resourceVersion", "ownerReferences", "finalizers")
_RELEASED_SECONDS: Final = 1
_MOST_TRANSITIONS: Final = 2**31 - 1
"""The API accepts no larger number, so it would refuse one more from every candidate, for good."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim says who wants the Lease for ``seconds``; ``identity`` is that of one campaign of one candidate."""

    name: str
    namespace: str
    identity: str
    advertise: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Lease:
    """The Lease, as it was read."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]

    @classmethod
    def read(cls, body: bytes) -> Lease:
        """Return the Lease in ``body``. Raises `StorageUnavailable` for anything else, as a proxy might answer."""
        try:
            document = msgspec.json.decode(body, type=_Document)
        except msgspec.MsgspecError as error:
            raise StorageUnavailable(f"the answer is not a Lease: {error}") from error
        return cls(document.metadata, document.spec or {})

    @property
    def version(self) -> tuple[str, str]:
        """Return what changes whenever anybody changes the Lease, also if it was deleted and made again."""
        return self.metadata.get("uid") or "", self.metadata.get("resourceVersion") or ""

    @property
    def holder(self) -> str:
        """Return the holder's identity; empty if the Lease was released, or somebody took the holder out."""
        return self.spec.get("holderIdentity") or ""

    @property
    def released_by(self) -> str:
        """Return the identity that released the Lease; empty while it is held, or if nobody released it."""
        return "" if self.holder else (self.metadata.get("annotations") or {}).get(RELEASED) or ""

    @property
    def seconds(self) -> float:
        """Return for how long the Lease is held after each renewal; 0 if it does not say."""
        return float(self.spec.get("leaseDurationSeconds") or 0)

    @property
    def advertised(self) -> str | None:
        """Return the URL of the holder; None if there is none, or somebody else wrote it."""
        url = (self.metadata.get("annotations") or {}).get(ADVERTISE)
        return url if url and self.holder.startswith(f"{url}#") else None

    def belongs_to(self, name: str) -> bool:
        """Return whether the deployment ``name``, which is also the Lease's name, made the Lease.

        Its label shows that, or, where somebody removed the label, an annotation that nobody else writes. The next
        holder puts the label back.
        """
        labels = self.metadata.get("labels") or {}
        if DEPLOYMENT in labels:
            return are_ours(labels, name)
        annotations = self.metadata.get("annotations") or {}
        return self.metadata.get("name") == name and (ADVERTISE in annotations or RELEASED in annotations)


def claimed(lease: Lease | None, claim: Claim, now: datetime) -> bytes:
    """Return the Lease to write so that ``claim`` holds it, or renews it: ``lease`` changed, or a new one.

    What others put into the Lease stays. Raises `StorageUnavailable`, see `_carried`.
    """
    spec = dict(lease.spec) if lease is not None else {}
    if lease is None or lease.holder != claim.identity:
        spec["acquireTime"] = _micro_time(now)
        spec["leaseTransitions"] = 0 if lease is None else _one_more(spec.get("leaseTransitions"))
    spec["holderIdentity"] = claim.identity
    spec["leaseDurationSeconds"] = max(1, math.ceil(claim.seconds))
    spec["renewTime"] = _micro_time(now)
    metadata = _carried(lease) if lease is not None else {"name": claim.name, "namespace": claim.namespace}
    return _document(
        metadata,
        spec,
        labels={**_texts(lease, "labels"), **labels_of(claim.name)},
        annotations={**_others_annotations(lease), ADVERTISE: claim.advertise},
    )


def _one_more(transitions: object) -> int:
    """Return the next count of transitions, which is only for people; at the limit it begins again."""
    return transitions + 1 if isinstance(transitions, int) and 0 <= transitions < _MOST_TRANSITIONS else 0


def released(lease: Lease, now: datetime) -> bytes:
    """Return the Lease to write so that another can take it at once. Raises `StorageUnavailable`, see `_carried`."""
    mark = lease.holder or lease.released_by
    annotations = _others_annotations(lease) | ({RELEASED: mark} if mark else {})
    spec = {**lease.spec, **_held_by_nobody(now)}
    return _document(_carried(lease), spec, labels=_texts(lease, "labels"), annotations=annotations)


def unclaimed(claim: Claim, now: datetime) -> bytes:
    """Return a new Lease that nobody holds, in place of the one that ``claim`` would make."""
    return _document(
        {"name": claim.name, "namespace": claim.namespace},
        {"leaseTransitions": 0, **_held_by_nobody(now)},
        labels=labels_of(claim.name),
        annotations={RELEASED: claim.identity},
    )


def _held_by_nobody(now: datetime) -> dict[str, Any]:
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": _RELEASED_SECONDS,
        "acquireTime": _micro_time(now),
        "renewTime": _micro_time(now),
    }


class _Document(msgspec.Struct):
    metadata: dict[str, Any]
    spec: dict[str, Any] | None = None


def _document(
    metadata: dict[str, Any], spec: dict[str, Any], *, labels: dict[str, str], annotations: dict[str, str]
) -> bytes:
    # One empty entry turns off the tracking of fields, which would be most of the object.
    metadata |= {"labels": labels, "annotations": annotations, "managedFields": [{}]}
    return msgspec.json.encode(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    )


def _carried(lease: Lease) -> dict[str, Any]:
    """Return what an update has to repeat of the Lease, above all the version that the update is conditional on.

    Raises `StorageUnavailable` if there is no version: without one the update would overwrite whatever is there.
    """
    uid, version = lease.version
    if not uid or version in ("", "0"):
        raise StorageUnavailable("the Lease was read without a version, so it cannot be changed safely")
    return {name: lease.metadata[name] for name in _CARRIED if name in lease.metadata}


def _others_annotations(lease: Lease | None) -> dict[str, str]:
    return {name: text for name, text in _texts(lease, "annotations").items() if name not in (ADVERTISE, RELEASED)}


def _texts(lease: Lease | None, name: str) -> dict[str, str]:
    return dict(lease.metadata.get(name) or {}) if lease is not None else {}


def _micro_time(now: datetime) -> str:
    return now.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

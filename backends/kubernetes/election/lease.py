"""The Lease that an election goes by: what it says, and what is to stand in it next.

Its fields are used as client-go's leader election does. ``renewTime`` and ``acquireTime`` are for people: clocks of
different machines are never compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

import msgspec

from backends.contract import StorageUnavailable
from backends.kubernetes.labels import DEPLOYMENT, are_ours, labels_of

ADVERTISE: Final = "milepost/advertise"
"""The annotation that holds the URL other replicas hear of."""
RELEASED: Final = "milepost/released"
"""The annotation that holds the identity of whoever released the Lease; nobody else writes it, nor while it is held."""

_CARRIED: Final = ("name", "namespace", "uid", "resourceVersion", "ownerReferences", "finalizers")
_RELEASED_SECONDS: Final = 1
_MOST_TRANSITIONS: Final = 2**31 - 1
"""What the API takes. It would refuse one more, from every candidate for good."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who wants to hold the Lease. ``identity`` belongs to one campaign of one candidate; ``seconds``: for how long."""

    name: str
    namespace: str
    identity: str
    advertise: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Lease:
    """The Lease as it was read."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]

    @classmethod
    def read(cls, body: bytes) -> Lease:
        """Raises `StorageUnavailable` for what is no Lease at all, as a proxy might answer."""
        try:
            document = msgspec.json.decode(body, type=_Document)
        except msgspec.MsgspecError as error:
            raise StorageUnavailable(f"the answer is no Lease: {error}") from error
        return cls(document.metadata, document.spec or {})

    @property
    def version(self) -> tuple[str, str]:
        """Another one after each change, whoever made it, also if the Lease was deleted and made again."""
        return self.metadata.get("uid") or "", self.metadata.get("resourceVersion") or ""

    @property
    def holder(self) -> str:
        """The identity of whoever holds it; empty when it was released, or another hand took the name out."""
        return self.spec.get("holderIdentity") or ""

    @property
    def released_by(self) -> str:
        """The identity that let go of it; empty where it is held, or nobody did."""
        return "" if self.holder else (self.metadata.get("annotations") or {}).get(RELEASED) or ""

    @property
    def seconds(self) -> float:
        """For how long it is held after each renewal; 0 where it does not say."""
        return float(self.spec.get("leaseDurationSeconds") or 0)

    @property
    def advertised(self) -> str | None:
        """The URL of the holder; None if there is none, or another hand wrote it."""
        url = (self.metadata.get("annotations") or {}).get(ADVERTISE)
        return url if url and self.holder.startswith(f"{url}#") else None

    def belongs_to(self, name: str) -> bool:
        """Whether the deployment ``name``, which is the Lease's too, made it: by its label, or where another hand took
        that away by an annotation that nobody else writes. Whoever wins it puts the label back.
        """
        labels = self.metadata.get("labels") or {}
        if DEPLOYMENT in labels:
            return are_ours(labels, name)
        annotations = self.metadata.get("annotations") or {}
        return self.metadata.get("name") == name and (ADVERTISE in annotations or RELEASED in annotations)


def claimed(lease: Lease | None, claim: Claim, now: datetime) -> bytes:
    """What makes ``claim`` the holder, or renews it: of ``lease``, or of a new one.

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
    """For people alone: a count that another hand raised as far as it goes begins anew."""
    return transitions + 1 if isinstance(transitions, int) and 0 <= transitions < _MOST_TRANSITIONS else 0


def released(lease: Lease, now: datetime) -> bytes:
    """What lets another take ``lease`` at once. Raises `StorageUnavailable`, see `_carried`."""
    mark = lease.holder or lease.released_by
    annotations = _others_annotations(lease) | ({RELEASED: mark} if mark else {})
    spec = {**lease.spec, **_held_by_nobody(now)}
    return _document(_carried(lease), spec, labels=_texts(lease, "labels"), annotations=annotations)


def unclaimed(claim: Claim, now: datetime) -> bytes:
    """A new Lease that nobody holds, in the place of the one that ``claim`` would make."""
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
    # One empty entry turns the tracking of fields off, which would be most of the object.
    metadata |= {"labels": labels, "annotations": annotations, "managedFields": [{}]}
    return msgspec.json.encode(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    )


def _carried(lease: Lease) -> dict[str, Any]:
    """What an update has to repeat, above all the version that it is conditional on: without one it would overwrite
    whatever stands there. Raises `StorageUnavailable` rather than send that.
    """
    uid, version = lease.version
    if not uid or version in ("", "0"):
        raise StorageUnavailable("the Lease was read without a version to be changed by")
    return {name: lease.metadata[name] for name in _CARRIED if name in lease.metadata}


def _others_annotations(lease: Lease | None) -> dict[str, str]:
    return {name: text for name, text in _texts(lease, "annotations").items() if name not in (ADVERTISE, RELEASED)}


def _texts(lease: Lease | None, name: str) -> dict[str, str]:
    return dict(lease.metadata.get(name) or {}) if lease is not None else {}


def _micro_time(now: datetime) -> str:
    return now.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""Reads and writes the Lease of an election, and remembers when this replica first saw each state of it.

The fields of the Lease are used as in client-go's leader election. ``renewTime`` and ``acquireTime`` are only for
people: clocks of different machines are never compared.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

import msgspec

from milepost_backends.contract import StorageUnavailable
from milepost_backends.kubernetes.address import DEPLOYMENT, are_ours, labels_of

log = logging.getLogger("milepost.election")
ADVERTISE: Final = "milepost/advertise"
"""The annotation with the advertised URL of the holder."""
RELEASED: Final = "milepost/released"
"""The annotation with the identity that released the Lease. Only Milepost writes it, and removes it when the Lease is
taken.
"""

_CARRIED: Final = ("name", "namespace", "uid", "resourceVersion", "ownerReferences", "finalizers")
_RELEASED_SECONDS: Final = 1
_MOST_TRANSITIONS: Final = 2**31 - 1
"""The largest number of transitions that the API accepts. With a larger one it would refuse every later write."""

_MOST_SECONDS: Final = 3600.0
"""The longest lease duration that an address may set. If a Lease has a longer one, another program or a person edited
it.
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A candidate's claim to the Lease for ``seconds``. Each campaign of a candidate has its own ``identity``."""

    name: str
    namespace: str
    identity: str
    advertise: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Lease:
    """The Lease of an election, as it was read from Kubernetes."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]

    @classmethod
    def read(cls, body: bytes) -> Lease:
        """Return the Lease in ``body``. Raises `StorageUnavailable` for any other content, such as a proxy's answer."""
        try:
            document = msgspec.json.decode(body, type=_Document)
        except msgspec.MsgspecError as error:
            raise StorageUnavailable(f"the answer is not a Lease: {error}") from error
        return cls(document.metadata, document.spec or {})

    @property
    def version(self) -> tuple[str, str]:
        """Return a value that differs after every change of the Lease, also if the Lease was deleted and made again."""
        return self.metadata.get("uid") or "", self.metadata.get("resourceVersion") or ""

    @property
    def holder(self) -> str:
        """Return the holder's identity; empty if the Lease was released, or another program removed the holder."""
        return self.spec.get("holderIdentity") or ""

    @property
    def released_by(self) -> str:
        """Return the identity that released the Lease; empty while it is held, or if it was never released."""
        return "" if self.holder else (self.metadata.get("annotations") or {}).get(RELEASED) or ""

    @property
    def seconds(self) -> float:
        """Return the duration in the Lease: the seconds for which a renewal holds it; 0 if it has none."""
        return float(self.spec.get("leaseDurationSeconds") or 0)

    @property
    def advertised(self) -> str | None:
        """Return the advertised URL of the holder; None if there is no holder, or another program wrote the Lease."""
        url = (self.metadata.get("annotations") or {}).get(ADVERTISE)
        return url if url and self.holder.startswith(f"{url}#") else None

    def belongs_to(self, name: str) -> bool:
        """Return whether the deployment ``name`` made the Lease, which has the same name.

        Its label shows that. If the label was removed, an annotation that only Milepost writes shows it, and the next
        holder sets the label again.
        """
        labels = self.metadata.get("labels") or {}
        if DEPLOYMENT in labels:
            return are_ours(labels, name)
        annotations = self.metadata.get("annotations") or {}
        return self.metadata.get("name") == name and (ADVERTISE in annotations or RELEASED in annotations)


def claimed(lease: Lease | None, claim: Claim, now: datetime) -> bytes:
    """Return the body of the request by which ``claim`` takes or renews the Lease: ``lease`` changed, or a new Lease.

    Fields of other programs stay. ``now`` is written for people only. Raises `StorageUnavailable` if ``lease`` has no
    version.
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
    """Return the number after ``transitions``, the count of changes of the holder in the Lease.

    The count is only for people, so after the largest number it begins again.
    """
    return transitions + 1 if isinstance(transitions, int) and 0 <= transitions < _MOST_TRANSITIONS else 0


def released(lease: Lease, now: datetime) -> bytes:
    """Return the body of the request that releases ``lease``, so that another candidate can take it at once.

    ``now`` is written for people only. Raises `StorageUnavailable` if ``lease`` has no version.
    """
    mark = lease.holder or lease.released_by
    annotations = _others_annotations(lease) | ({RELEASED: mark} if mark else {})
    spec = {**lease.spec, **_held_by_nobody(now)}
    return _document(_carried(lease), spec, labels=_texts(lease, "labels"), annotations=annotations)


def unclaimed(claim: Claim, now: datetime) -> bytes:
    """Return the body of a new Lease without a holder.

    An earlier request of ``claim``, whose outcome is unknown, may still create the Lease. If this
    Lease is created first, that request fails.
    """
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
    # One empty entry turns off Kubernetes' managed fields, which would be most of the object.
    metadata |= {"labels": labels, "annotations": annotations, "managedFields": [{}]}
    return msgspec.json.encode(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    )


def _carried(lease: Lease) -> dict[str, Any]:
    """Return the parts of the Lease that an update must repeat, above all the version on which the update is
    conditional.

    Raises `StorageUnavailable` if the Lease has no version: the update would then overwrite any Lease.
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


class LeaseObserver:
    """The Lease, as this replica last saw it. All times are monotonic seconds of this machine.

    A holder's lease is over when the Lease has stayed unchanged for its lease duration, counted from when this replica
    first saw its present state. The holder itself counts from an earlier moment, when it sent its request. This replica
    waits at least ``least_seconds``, whatever duration the Lease has, so that an edit cannot shorten the lease of a
    living holder.

    If a Lease that was held is deleted, or its holder is removed without a release, another program did that, and the
    holder still leads for its lease duration. So the Lease is free only that long after this replica first saw the
    change.
    """

    def __init__(self, name: str, least_seconds: float, clock: Callable[[], float]) -> None:
        self._name = name
        self._least_seconds = least_seconds
        self._clock = clock
        self._lease: Lease | None = None
        self._since = float("-inf")
        self._asked = float("-inf")
        self._held: Lease | None = None
        """The Lease when it was last seen held, unless its holder has released it since."""
        self._missing_since: float | None = None
        """The time at which the Lease was first seen without its holder, or found deleted."""

    def note(self, lease: Lease | None, asked: float) -> None:
        """Note a Lease that was read or written by a request sent at ``asked`` (monotonic); None if the request found
        none.

        The Lease is ignored if the answer to a later request was noted before.
        """
        if asked < self._asked:
            return
        before, self._lease, self._asked = self._lease, lease, asked
        now = self._clock()
        if lease is None or before is None or lease.version != before.version:
            self._since = now
            if lease is not None and lease.seconds > _MOST_SECONDS:
                log.error(
                    "another program set the Lease to last %g s; waiting %g s at most", lease.seconds, _MOST_SECONDS
                )
        if lease is not None and lease.holder:
            self._held, self._missing_since = lease, None
        elif self._is_released(lease):
            self._held, self._missing_since = None, None
        elif self._held is not None and self._missing_since is None:
            self._missing_since = now
            log.error(
                "another program %s; this replica waits as long as its holder may still lead: %s",
                "deleted the Lease" if lease is None else "took the holder out of the Lease",
                self._held.holder,
            )

    def age(self) -> float:
        """Return the seconds since the last request was sent that has read or written the Lease."""
        return self._clock() - self._asked

    def wait(self, lease: Lease | None) -> float:
        """Return the seconds until ``lease`` may be taken if it stays unchanged.

        The result is 0 for a Lease that was released, or never seen with a holder. If ``lease`` differs from the Lease
        last seen, the wait begins now, since its holder may have renewed it a moment ago.
        """
        now = self._clock()
        if lease is not None and lease.holder:
            same = self._lease is not None and self._lease.version == lease.version
            return max(0.0, (self._since if same else now) + self._seconds(lease) - now)
        if self._held is None or self._is_released(lease):
            return 0.0
        since = now if self._missing_since is None else self._missing_since
        return max(0.0, since + self._seconds(self._held) - now)

    def leader(self) -> str | None:
        """Return the advertised URL of the holder; None if the holder's lease is over."""
        if self._lease is None or not self._lease.belongs_to(self._name):
            return None
        return self._lease.advertised if self.wait(self._lease) > 0 else None

    def _is_released(self, lease: Lease | None) -> bool:
        """Return whether the last known holder has released the Lease, as the annotation in ``lease`` shows.

        The annotation must name this holder: a Lease restored from a copy may have the annotation of an earlier one.
        """
        return self._held is not None and lease is not None and lease.released_by == self._held.holder

    def _seconds(self, lease: Lease) -> float:
        return min(max(lease.seconds, self._least_seconds), _MOST_SECONDS)

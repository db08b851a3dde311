"""Parses addresses ``kubernetes://NAMESPACE/NAME?lease_duration=15&…``, and defines the labels by which the objects of
the deployment NAME are found.

``kubernetes:///`` omits both names. Milepost does not change objects of other programs, which lack these labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from milepost_backends.contract import Misconfigured, parse_options

SCHEME: Final = "kubernetes"
DEFAULT_NAME: Final = "milepost"
DEFAULT_BYTES_PER_SECOND: Final = 900_000
DEFAULT_MOST_BYTES: Final = 64 * 1024 * 1024
DEFAULT_LEASE_DURATION: Final = 15.0
DEFAULT_RENEW_DEADLINE: Final = 10.0
DEFAULT_RETRY_PERIOD: Final = 2.0

DEPLOYMENT: Final = "milepost/deployment"
INSTANCE: Final = "app.kubernetes.io/instance"
"""The label that the creator of a Pod sets. Objects that Milepost makes do not have it, see `labels_of`."""
ROLE: Final = "milepost/role"
"""The label of a Pod whose value is `LEADER` while the replica in the Pod leads."""
LEADER: Final = "leader"

_LONGEST_NAME: Final = 40
_LONGEST_NAMESPACE: Final = 63
_LONGEST_POD: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_SECONDS: Final = re.compile(r"\d{1,4}(\.\d{1,3})?\Z")
_BYTES: Final = re.compile(r"\d{1,10}\Z")
_LEAST: Final = {"lease_duration": 3.0, "renew_deadline": 2.0, "retry_period": 0.5}
_LEAST_BYTES: Final = {"bytes_per_second": 50_000, "most_bytes": 1024 * 1024}
_LONGEST_REQUEST: Final = 10.0
_OPTIONS: Final = (
    "kubeconfig",
    "context",
    "bytes_per_second",
    "most_bytes",
    "lease_duration",
    "renew_deadline",
    "retry_period",
    "pod",
)


@dataclass(frozen=True, slots=True)
class KubernetesAddress:
    """The parts of an address: a namespace, a deployment in it, and the way to connect.

    ``namespace`` is None for the Pod's own, or for that of the kubeconfig's context. The name of each object begins
    with ``name``, so that two deployments can share a namespace. If ``kubeconfig`` or ``context`` is given, the
    configuration comes from there. Otherwise it comes from the Pod's service account inside a cluster, and from
    ``KUBECONFIG`` or ``~/.kube/config`` outside of one. ``bytes_per_second`` limits the long-term rate of writing
    pointers, and ``most_bytes`` their total size. The election uses ``lease_duration`` > ``renew_deadline`` >
    ``retry_period`` (seconds). ``pod`` is this replica's own Pod, to which the election adds the leader's label; None
    for no label.
    """

    namespace: str | None = None
    name: str = DEFAULT_NAME
    kubeconfig: Path | None = None
    context: str | None = None
    bytes_per_second: int = DEFAULT_BYTES_PER_SECOND
    lease_duration: float = DEFAULT_LEASE_DURATION
    renew_deadline: float = DEFAULT_RENEW_DEADLINE
    retry_period: float = DEFAULT_RETRY_PERIOD
    pod: str | None = None
    most_bytes: int = DEFAULT_MOST_BYTES

    @property
    def request_seconds(self) -> float:
        """Return the time limit of one request about the Lease of the election, in seconds.

        Within the renew deadline there is time for at least two such requests.
        """
        return min(_LONGEST_REQUEST, self.renew_deadline / 2)

    @classmethod
    def parse(cls, url: str) -> KubernetesAddress:
        """Return the address in ``url``. Raises `Misconfigured`, which never quotes a possible password."""
        scheme, separator, rest = url.partition("://")
        if not separator or scheme != SCHEME:
            raise Misconfigured(f"an address in Kubernetes begins with {SCHEME}://")
        place, _, query = rest.partition("?")
        if "@" in place:
            raise Misconfigured("an address in Kubernetes must not hold a user or password: use kubeconfig instead")
        namespace, _, name = place.partition("/")
        options = parse_options(query, _OPTIONS, "an address in Kubernetes")
        address = cls(
            namespace=_label(namespace, "a namespace", _LONGEST_NAMESPACE) if namespace else None,
            name=_label(name.rstrip("/"), "a deployment's name", _LONGEST_NAME) if name.rstrip("/") else DEFAULT_NAME,
            kubeconfig=Path(path) if (path := options.get("kubeconfig")) else None,
            context=options.get("context"),
            bytes_per_second=_bytes(options, "bytes_per_second", DEFAULT_BYTES_PER_SECOND),
            most_bytes=_bytes(options, "most_bytes", DEFAULT_MOST_BYTES),
            lease_duration=_seconds(options, "lease_duration", DEFAULT_LEASE_DURATION),
            renew_deadline=_seconds(options, "renew_deadline", DEFAULT_RENEW_DEADLINE),
            retry_period=_seconds(options, "retry_period", DEFAULT_RETRY_PERIOD),
            pod=_pod(options.get("pod")),
        )
        if not address.lease_duration > address.renew_deadline > address.retry_period:
            raise Misconfigured("lease_duration must be longer than renew_deadline, and that longer than retry_period")
        return address


def _label(text: str, what: str, longest: int) -> str:
    if len(text) > longest or not _LABEL.match(text):
        raise Misconfigured(f"{what} must have 1 to {longest} characters of a-z 0-9 -, and no - at either end")
    return text


def _pod(name: str | None) -> str | None:
    if name is not None and (len(name) > _LONGEST_POD or not _SUBDOMAIN.match(name)):
        raise Misconfigured("pod must be the name of a Pod")
    return name


def _seconds(options: dict[str, str], name: str, default: float) -> float:
    value = options.get(name)
    if value is None:
        return default
    if not _SECONDS.match(value) or not _LEAST[name] <= float(value) <= 3600:
        raise Misconfigured(f"{name} must be seconds from {_LEAST[name]:g} to 3600")
    return float(value)


def _bytes(options: dict[str, str], name: str, default: int) -> int:
    value = options.get(name)
    if value is None:
        return default
    if not _BYTES.match(value) or int(value) < _LEAST_BYTES[name]:
        raise Misconfigured(f"{name} must be a number of at least {_LEAST_BYTES[name]}")
    return int(value)


def labels_of(name: str) -> dict[str, str]:
    """Return the labels of the objects that the deployment ``name`` makes.

    Milepost sets only its own label. It sets none of ``app.kubernetes.io``, by which deployment tools find the objects
    that they manage: such a tool would delete an object that it did not make itself.
    """
    return {DEPLOYMENT: name}


def are_ours(labels: Mapping[str, str], name: str) -> bool:
    """Return whether these ``labels``, of an object in Kubernetes, say that the deployment ``name`` made the object."""
    return labels_of(name).items() <= labels.items()


def selector(labels: Mapping[str, str]) -> str:
    """Return the ``labelSelector`` that restricts a list to objects with these labels."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))

"""The labels by which a deployment's objects are known; what does not carry them is not ours to touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
INSTANCE: Final = "app.kubernetes.io/instance"
ROLE: Final = "milepost/role"
"""Of a Pod: `LEADER` on the one that leads."""
LEADER: Final = "leader"

_MANAGER: Final = "milepost"


def labels_of(name: str) -> dict[str, str]:
    """What each object that the deployment ``name`` makes carries."""
    return {MANAGED_BY: _MANAGER, INSTANCE: name}


def are_ours(labels: Mapping[str, str], name: str) -> bool:
    """Whether an object with these is one that the deployment ``name`` made."""
    return labels_of(name).items() <= labels.items()


def selector(labels: Mapping[str, str]) -> str:
    """What a list is narrowed by, as ``labelSelector`` takes it."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))

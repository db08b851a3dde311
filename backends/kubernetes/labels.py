"""The labels by which a deployment's objects are known; what does not carry them is not ours to touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DEPLOYMENT: Final = "milepost/deployment"
INSTANCE: Final = "app.kubernetes.io/instance"
"""Of a Pod, by whoever made it; nothing that we make carries it, see `labels_of`."""
ROLE: Final = "milepost/role"
"""Of a Pod: `LEADER` on the one that leads."""
LEADER: Final = "leader"


def labels_of(name: str) -> dict[str, str]:
    """What the objects that the deployment ``name`` makes carry.

    A label of our own alone: by those of ``app.kubernetes.io`` deployment tools know what they made, and prune what
    they find with them beyond that.
    """
    return {DEPLOYMENT: name}


def are_ours(labels: Mapping[str, str], name: str) -> bool:
    """Whether an object with these is one that the deployment ``name`` made."""
    return labels_of(name).items() <= labels.items()


def selector(labels: Mapping[str, str]) -> str:
    """What a list is narrowed by, as ``labelSelector`` takes it."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))

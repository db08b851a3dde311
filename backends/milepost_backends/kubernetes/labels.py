"""The labels that mark a deployment's objects; Milepost does not touch an object without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DEPLOYMENT: Final = "milepost/deployment"
INSTANCE: Final = "app.kubernetes.io/instance"
"""The creator of a Pod sets this label; no object that Milepost makes has it, see `labels_of`."""
ROLE: Final = "milepost/role"
"""A Pod whose label has the value `LEADER` leads."""
LEADER: Final = "leader"


def labels_of(name: str) -> dict[str, str]:
    """Return the labels of the objects that the deployment ``name`` makes.

    There is only one, of Milepost's own. Deployment tools recognize their objects by labels of ``app.kubernetes.io``,
    and delete other objects with those labels.
    """
    return {DEPLOYMENT: name}


def are_ours(labels: Mapping[str, str], name: str) -> bool:
    """Return whether the deployment ``name`` made an object with these labels."""
    return labels_of(name).items() <= labels.items()


def selector(labels: Mapping[str, str]) -> str:
    """Return the ``labelSelector`` that restricts a list to objects with these labels."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))

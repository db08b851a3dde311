"""Define the labels that mark a deployment's objects; Milepost does not touch an object without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DEPLOYMENT: Final = "milepost/deployment"
INSTANCE: Final = "app.kubernetes.io/instance"
"""Whoever made a Pod set this label; nothing that Milepost makes carries it, see `labels_of`."""
ROLE: Final = "milepost/role"
"""A Pod with the value `LEADER` of this label leads."""
LEADER: Final = "leader"


def labels_of(name: str) -> dict[str, str]:
    """Return the labels of the objects that the deployment ``name`` makes.

    There is only one, of Milepost's own. Deployment tools recognise what they made by labels of ``app.kubernetes.io``,
    and delete what else they find with those.
    """
    return {DEPLOYMENT: name}


def are_ours(labels: Mapping[str, str], name: str) -> bool:
    """Return whether an object with these labels is one that the deployment ``name`` made."""
    return labels_of(name).items() <= labels.items()


def selector(labels: Mapping[str, str]) -> str:
    """Return the ``labelSelector`` that restricts a list to objects with these labels."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))

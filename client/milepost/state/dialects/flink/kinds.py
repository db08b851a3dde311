"""The kinds of state, as a checkpoint names them, and the column families that they lie in."""

from __future__ import annotations

from enum import Enum

from milepost.state.dialects.flink.descriptors import (
    KeyedDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

KEYED = "keyed:"
"""What the family of a keyed state begins with; its name follows."""

OPERATOR = "operator:"
"""What the family of an operator state begins with."""

WITH_TTL = " with ttl"


class Kind(Enum):
    """What a state is. The values stand in checkpoints, followed by `WITH_TTL` where values carry their time."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    SPLIT_LIST = "split list"
    UNION_LIST = "union list"
    BROADCAST = "broadcast"


def keyed_kind(descriptor: KeyedDescriptor) -> str:
    """Return the kind of a keyed state, as a checkpoint names it."""
    if isinstance(descriptor, ValueStateDescriptor):
        kind = Kind.VALUE
    elif isinstance(descriptor, ListStateDescriptor):
        kind = Kind.LIST
    elif isinstance(descriptor, MapStateDescriptor):
        kind = Kind.MAP
    elif isinstance(descriptor, ReducingStateDescriptor):
        kind = Kind.REDUCING
    else:
        kind = Kind.AGGREGATING
    return kind.value + (WITH_TTL if descriptor.ttl is not None else "")


def base_kind(kind: str) -> Kind:
    """Return the kind that a checkpoint names, whether values carry their time or not. Raises `ValueError`."""
    return Kind(kind.removesuffix(WITH_TTL))

"""The two small ConfigMaps beside a journal that say who took it over last: the witness, and the founding mark.

They hold no data of ours. What another hand keeps in a ConfigMap of such a name stays there, beside what we note.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from backends.contract import Head, StorageUnavailable, TakeOverLost
from backends.kubernetes.configmaps.head import WitnessAnnotation
from backends.kubernetes.configmaps.maps import Maps, metadata_of
from backends.kubernetes.configmaps.objects import HEAD, ConfigMap, ConfigMapLayout, Frozen, Metadata
from backends.kubernetes.errors import backend_error

log = logging.getLogger("milepost.kubernetes")

_ROUNDS: Final = 8
"""While somebody edits it."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """One of them as it was last read or written. ``metadata`` is None where there is none of this name; ``told`` where
    it makes no sense, or does not prove itself.
    """

    name: str
    metadata: Metadata | None = None
    told: WitnessAnnotation | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    frozen: Frozen | None = None

    @classmethod
    def of(cls, name: str, found: ConfigMap | None) -> Stamp:
        """What was found."""
        if found is None:
            return cls(name)
        told = WitnessAnnotation.decode(found.metadata.annotations.get(HEAD), name)
        return cls(name, found.metadata.check(), told, found.data, found.frozen)


async def read(maps: Maps, name: str) -> Stamp:
    """As it stands. Raises `BackendError`."""
    return Stamp.of(name, await maps.read(name, data=True))


async def note(maps: Maps, layout: ConfigMapLayout, last: Stamp, head: Head) -> Stamp:
    """Write down ``head``, unless that is there already, or what came after it under the same leadership.

    Raises `TakeOverLost`: a later term is named; `BackendError`.
    """
    stamp, ours = last, WitnessAnnotation.of(head)
    for _ in range(_ROUNDS):
        told = stamp.told
        if told is not None and not told.is_of(head) and told.term >= head.term:
            raise TakeOverLost(f"term {told.term} took {layout.journal!r} over, says {stamp.name}")
        if told is not None and told.is_of(head) and told.revision >= head.revision:
            return stamp
        text = ours.encoded(stamp.name)
        if stamp.metadata is None:
            answer = await maps.create(layout.marked(Metadata(name=stamp.name), text), {})
        else:
            marked = layout.marked(stamp.metadata, text)
            answer = await maps.replace(marked, stamp.data, stamp.frozen)
        if answer.done:
            metadata = metadata_of(answer, f"record the term in {stamp.name}")
            return Stamp(stamp.name, metadata, ours, stamp.data, stamp.frozen)
        if answer.status not in (404, 409) and not answer.is_of_immutable:
            raise backend_error(answer, f"record the term in {stamp.name}")
        log.info("the ConfigMap %s was changed meanwhile; it is read again", stamp.name)
        stamp = await read(maps, stamp.name)
    raise StorageUnavailable(f"somebody keeps changing the ConfigMap {last.name}")

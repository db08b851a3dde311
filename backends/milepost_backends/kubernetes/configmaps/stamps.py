"""Reads and writes the two small ConfigMaps that record the last take-over of a journal.

They are the witness and the deployment marker. Milepost writes only their annotations, and keeps data that another
program has put into them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from milepost_backends.contract import Head, StorageUnavailable, TakeOverLost
from milepost_backends.kubernetes.configmaps.head import WitnessAnnotation
from milepost_backends.kubernetes.configmaps.maps import Maps, metadata_of
from milepost_backends.kubernetes.configmaps.objects import HEAD, ConfigMap, ConfigMapLayout, Frozen, Metadata
from milepost_backends.kubernetes.errors import backend_error

log = logging.getLogger("milepost.kubernetes")

_ROUNDS: Final = 8
"""The most attempts at a write while another program edits the ConfigMap."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The witness or the deployment marker, as it was last read or written.

    ``metadata`` is None if the ConfigMap does not exist. ``recorded`` is None if its annotation is not valid.
    """

    name: str
    metadata: Metadata | None = None
    recorded: WitnessAnnotation | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    frozen: Frozen | None = None

    @classmethod
    def of(cls, name: str, found: ConfigMap | None) -> Stamp:
        """Return the witness or deployment marker ``name``, as read from the ConfigMap ``found``.

        If that is None, the result has only the name.
        """
        if found is None:
            return cls(name)
        recorded = WitnessAnnotation.decode(found.metadata.annotations.get(HEAD), name)
        return cls(name, found.metadata.check(), recorded, found.data, found.frozen)


async def read(maps: Maps, name: str) -> Stamp:
    """Read the ConfigMap ``name``, a witness or a deployment marker. Raises `BackendError`."""
    return Stamp.of(name, await maps.read(name, data=True))


async def note(maps: Maps, layout: ConfigMapLayout, last: Stamp, head: Head) -> Stamp:
    """Write ``head`` into a witness or deployment marker, which was ``last``, and return it as it is now.

    Nothing is written if it has this revision already, or a later one, of the same term. Raises `TakeOverLost` if it
    shows that another leader has taken the journal over, and `BackendError`.
    """
    stamp, ours = last, WitnessAnnotation.of(head)
    for _ in range(_ROUNDS):
        recorded = stamp.recorded
        if recorded is not None and not recorded.is_of(head) and recorded.term >= head.term:
            raise TakeOverLost(f"term {recorded.term} took {layout.journal!r} over, as {stamp.name} shows")
        if recorded is not None and recorded.is_of(head) and recorded.revision >= head.revision:
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
        log.info("another program changed the ConfigMap %s meanwhile; reading it again", stamp.name)
        stamp = await read(maps, stamp.name)
    raise StorageUnavailable(f"another program keeps changing the ConfigMap {last.name}")

"""The ConfigMaps of a journal: their names, the labels and annotations that mark them, and their encoding.

::

    <name>-<slug>-<hash>-000000000001      a segment; segments are in the order of their numbers
    <name>-<slug>-<hash>-term              the witness: the term of the last take-over, and a recent revision
    <name>-<slug>-<hash>-founded           the deployment marker: it shows that the journal exists

Segments and witness have the labels ``milepost/deployment: <name>`` and ``milepost/journal: <hash>``. Milepost does not
change a segment or witness without them. The deployment marker has no label, so that a deletion by label does not
delete it: while it exists, the journal is not created anew. The annotation ``milepost/name`` has the journal's full
name, and ``milepost/head`` describes the content of the ConfigMap, see `SegmentHead` and `WitnessAnnotation`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from milepost_backends.contract import StorageUnavailable
from milepost_backends.kubernetes.address import labels_of

NAME: Final = "milepost/name"
HEAD: Final = "milepost/head"

_JOURNAL: Final = "milepost/journal"
_SLUG_LENGTH: Final = 30
_HASH_LENGTH: Final = 10
_DIGITS: Final = 12


class Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    """The metadata of an object that Milepost reads, or that a PUT must repeat so that it is not lost."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Any] = []
    finalizers: list[str] = []

    def check(self) -> Metadata:
        """Return this metadata. Raises `StorageUnavailable` if it has no version, on which a write could be
        conditional.

        The version ``0`` counts as none.
        """
        if not self.uid or self.resource_version in ("", "0"):
            raise StorageUnavailable(f"the Kubernetes API gives no version of {self.name or 'an object'}")
        return self


class Frozen(NamedTuple):
    """The parts of an immutable ConfigMap, besides its ``data``, that a PUT must repeat."""

    binary: Mapping[str, str]


class ConfigMap(msgspec.Struct, omit_defaults=True):
    """A ConfigMap, or only its metadata if the request asked only for the metadata."""

    metadata: Metadata
    data: dict[str, str] = {}
    immutable: bool = False
    """Whether the data can never be changed. The metadata can still be changed, and the ConfigMap can be deleted."""
    binary_data: dict[str, str] = msgspec.field(default_factory=dict, name="binaryData")

    @property
    def frozen(self) -> Frozen | None:
        """Return the parts that a PUT of this ConfigMap must repeat; None if the ConfigMap is not immutable."""
        return Frozen(self.binary_data) if self.immutable else None


class _Continue(msgspec.Struct):
    token: str = msgspec.field(name="continue", default="")


class ConfigMaps(msgspec.Struct):
    """One page of a listing of ConfigMaps."""

    metadata: _Continue
    items: list[ConfigMap] | None = None


@dataclass(frozen=True, slots=True)
class ConfigMapLayout:
    """The names, labels and annotations of one journal's ConfigMaps, in the deployment ``instance``."""

    instance: str
    journal: str

    @property
    def hash(self) -> str:
        """Return the hash of the journal's full name, which is part of names and labels."""
        return hashlib.sha256(self.journal.encode()).hexdigest()[:_HASH_LENGTH]

    @property
    def prefix(self) -> str:
        """Return the beginning that the names of all ConfigMaps of the journal share."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.journal.lower())[:_SLUG_LENGTH].strip("-")
        return "-".join(part for part in (self.instance, slug, self.hash) if part)

    def segment(self, number: int) -> str:
        """Return the name of the ConfigMap of a segment."""
        return f"{self.prefix}-{number:0{_DIGITS}d}"

    @property
    def witness(self) -> str:
        """Return the name of the ConfigMap that is the journal's witness."""
        return f"{self.prefix}-term"

    @property
    def deployment_marker(self) -> str:
        """Return the name of the ConfigMap that is the journal's deployment marker."""
        return f"{self.prefix}-founded"

    def number(self, name: str) -> int | None:
        """Return the number of the segment with this name; None if no segment has such a name."""
        digits = name.removeprefix(self.prefix + "-")
        return int(digits) if len(digits) == _DIGITS and digits.isdecimal() and digits.isascii() else None

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of the journal's ConfigMaps."""
        return {**labels_of(self.instance), _JOURNAL: self.hash}

    def marked(self, found: Metadata, head: str) -> Metadata:
        """Return the metadata to write: ``found``, with Milepost's labels and the annotation ``head``.

        Labels and annotations of other programs stay.
        """
        return msgspec.structs.replace(
            found,
            labels=found.labels if found.name == self.deployment_marker else {**found.labels, **self.labels},
            annotations={**found.annotations, NAME: self.journal, HEAD: head},
        )


def encode(metadata: Metadata, data: Mapping[str, str], frozen: Frozen | None = None) -> bytes:
    """Encode a ConfigMap for sending, with managed fields turned off: they would grow with the number of data keys."""
    sent = msgspec.to_builtins(metadata)
    if metadata.uid:
        sent["managedFields"] = [{}]
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": sent, "data": data}
    if frozen is not None:
        whole |= {"immutable": True, **({"binaryData": frozen.binary} if frozen.binary else {})}
    return msgspec.json.encode(whole)

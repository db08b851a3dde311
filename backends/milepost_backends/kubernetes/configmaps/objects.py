"""The ConfigMaps of a journal: their names, the labels and annotations that mark them, and their encoding.

::

    <name>-<slug>-<hash>-000000000001      a segment; segments are in the order of their numbers
    <name>-<slug>-<hash>-term              the witness: which term was taken over last, and at which revision it is
    <name>-<slug>-<hash>-founded           the deployment marker: it shows that the journal exists

All but the mark carry the labels ``milepost/deployment: <name>`` and ``milepost/journal: <hash>``; a ConfigMap without
them is never touched. The mark carries no label, so that a deletion by label spares it: while it exists, the journal is
not created anew. Two annotations, ``milepost/name`` and ``milepost/head``, have the journal's true name and the
description of the ConfigMap.
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
    """The parts of an object's metadata that Milepost reads, or that a PUT must repeat so that they are not lost."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Any] = []
    finalizers: list[str] = []

    def check(self) -> Metadata:
        """Return this metadata if a write can be conditional on it; without a version, or with ``0``, no write can be.

        Raises `StorageUnavailable`.
        """
        if not self.uid or self.resource_version in ("", "0"):
            raise StorageUnavailable(f"the Kubernetes API gives no version of {self.name or 'an object'}")
        return self


class Frozen(NamedTuple):
    """The parts that a PUT of an immutable ConfigMap must repeat, besides its ``data``."""

    binary: Mapping[str, str]


class ConfigMap(msgspec.Struct, omit_defaults=True):
    """A ConfigMap, or only its metadata if the request asked for no more."""

    metadata: Metadata
    data: dict[str, str] = {}
    immutable: bool = False
    """True if the ConfigMap was made immutable: its data then never changes, but its metadata can, and it can be
    deleted.
    """
    binary_data: dict[str, str] = msgspec.field(default_factory=dict, name="binaryData")

    @property
    def frozen(self) -> Frozen | None:
        """Return the parts that a PUT must repeat if this ConfigMap is immutable; None if it is not."""
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
        """Return the hash of the journal's true name."""
        return hashlib.sha256(self.journal.encode()).hexdigest()[:_HASH_LENGTH]

    @property
    def prefix(self) -> str:
        """Return the prefix of the names of the journal's ConfigMaps."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.journal.lower())[:_SLUG_LENGTH].strip("-")
        return "-".join(part for part in (self.instance, slug, self.hash) if part)

    def segment(self, number: int) -> str:
        """Return the name of a segment."""
        return f"{self.prefix}-{number:0{_DIGITS}d}"

    @property
    def witness(self) -> str:
        """Return the name of the witness."""
        return f"{self.prefix}-term"

    @property
    def deployment_marker(self) -> str:
        """Return the name of the deployment marker."""
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
        """Return the metadata to write: ``found`` with Milepost's labels and ``head``; fields that others set stay."""
        return msgspec.structs.replace(
            found,
            labels=found.labels if found.name == self.deployment_marker else {**found.labels, **self.labels},
            annotations={**found.annotations, NAME: self.journal, HEAD: head},
        )


def encode(metadata: Metadata, data: Mapping[str, str], frozen: Frozen | None = None) -> bytes:
    """Encode a ConfigMap for sending. The API's tracking of fields is turned off, since it grows with the data."""
    sent = msgspec.to_builtins(metadata)
    if metadata.uid:
        sent["managedFields"] = [{}]
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": sent, "data": data}
    if frozen is not None:
        whole |= {"immutable": True, **({"binaryData": frozen.binary} if frozen.binary else {})}
    return msgspec.json.encode(whole)

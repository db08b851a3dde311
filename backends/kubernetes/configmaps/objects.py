"""The ConfigMaps of a journal: how they are called, what marks them as ours, and how they are written.

::

    <name>-<slug>-<hash>-000000000001      segments, in order of their numbers
    <name>-<slug>-<hash>-term              the witness: which term was taken over last, and how far it is
    <name>-<slug>-<hash>-founded           the founding mark: that there is such a journal

All but the mark carry the labels ``milepost/deployment: <name>`` and ``milepost/journal: <hash>``; what does not is
never touched. The mark carries none, so that whoever deletes by a label does not delete it: while it is there, the
journal is not made anew. The journal's true name stands in ``milepost/name``, what a ConfigMap is in ``milepost/head``,
both annotations.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from backends.contract import StorageUnavailable
from backends.kubernetes.labels import labels_of

NAME: Final = "milepost/name"
HEAD: Final = "milepost/head"

_JOURNAL: Final = "milepost/journal"
_SLUG_LENGTH: Final = 30
_HASH_LENGTH: Final = 10
_DIGITS: Final = 12


class Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    """An object's metadata, as far as a PUT must not lose it or an answer tells it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Any] = []
    finalizers: list[str] = []

    def check(self) -> Metadata:
        """Itself, if a write can be conditional on it: without a version, or with ``0``, a write is unconditional.

        Raises `StorageUnavailable`.
        """
        if not self.uid or self.resource_version in ("", "0"):
            raise StorageUnavailable(f"the Kubernetes API tells no version of {self.name or 'an object'}")
        return self


class Frozen(NamedTuple):
    """What a ConfigMap that another hand made immutable holds beside its entries: each PUT has to repeat it."""

    binary: Mapping[str, str]


class ConfigMap(msgspec.Struct, omit_defaults=True):
    """A ConfigMap, or its metadata alone where no more was asked for."""

    metadata: Metadata
    data: dict[str, str] = {}
    immutable: bool = False
    """By another hand: its data, and this, can never be changed, but its metadata can, and it can be deleted."""
    binary_data: dict[str, str] = msgspec.field(default_factory=dict, name="binaryData")

    @property
    def frozen(self) -> Frozen | None:
        """None: it can be changed."""
        return Frozen(self.binary_data) if self.immutable else None


class _Continue(msgspec.Struct):
    token: str = msgspec.field(name="continue", default="")


class ConfigMaps(msgspec.Struct):
    """A page of a listing."""

    metadata: _Continue
    items: list[ConfigMap] | None = None


@dataclass(frozen=True, slots=True)
class ConfigMapLayout:
    """The names and marks of one journal's ConfigMaps, in the deployment ``instance``."""

    instance: str
    journal: str

    @property
    def hash(self) -> str:
        """Of the journal's true name."""
        return hashlib.sha256(self.journal.encode()).hexdigest()[:_HASH_LENGTH]

    @property
    def prefix(self) -> str:
        """What the names of the journal's ConfigMaps begin with."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.journal.lower())[:_SLUG_LENGTH].strip("-")
        return "-".join(part for part in (self.instance, slug, self.hash) if part)

    def segment(self, number: int) -> str:
        """The name of a segment."""
        return f"{self.prefix}-{number:0{_DIGITS}d}"

    @property
    def witness(self) -> str:
        """The name of the witness."""
        return f"{self.prefix}-term"

    @property
    def founding(self) -> str:
        """The name of the founding mark."""
        return f"{self.prefix}-founded"

    def number(self, name: str) -> int | None:
        """The number of the segment of this name; None if it is no segment's."""
        digits = name.removeprefix(self.prefix + "-")
        return int(digits) if len(digits) == _DIGITS and digits.isdecimal() and digits.isascii() else None

    @property
    def labels(self) -> dict[str, str]:
        """What the journal's ConfigMaps carry."""
        return {**labels_of(self.instance), _JOURNAL: self.hash}

    def marked(self, found: Metadata, head: str) -> Metadata:
        """What to write: ``found`` with our marks and ``head``; what others set stays."""
        return msgspec.structs.replace(
            found,
            labels=found.labels if found.name == self.founding else {**found.labels, **self.labels},
            annotations={**found.annotations, NAME: self.journal, HEAD: head},
        )


def encode(metadata: Metadata, data: Mapping[str, str], frozen: Frozen | None = None) -> bytes:
    """A ConfigMap as it is sent. The API's tracking of fields is given up, since it grows with the data."""
    sent = msgspec.to_builtins(metadata)
    if metadata.uid:
        sent["managedFields"] = [{}]
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": sent, "data": data}
    if frozen is not None:
        whole |= {"immutable": True, **({"binaryData": frozen.binary} if frozen.binary else {})}
    return msgspec.json.encode(whole)

"""The origin of a clone: which job it was cloned from, what it took along, and where it must not publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Origin:
    """What a clone of a job was made from.

    ``lineage`` has the name and the identity of each job that the clone descends from, the nearest first. ``snapshot``
    is the snapshot of the nearest that was cloned. ``batch`` is the last batch that was published when the clone's own
    output began, -1 if none was: the clone's output has the batches after it. ``outputs`` are the directories of
    `Job.files` into which the jobs of the lineage published. ``states`` is the name of the directory of the managed
    states among the files of the clone: the identity of the job that began them.
    """

    lineage: tuple[tuple[str, str], ...]
    snapshot: str
    batch: int
    outputs: tuple[str, ...]
    states: str

    @property
    def source(self) -> str:
        """The name of the job that was cloned."""
        return self.lineage[0][0]

    def to_json(self) -> dict[str, Any]:
        """Convert an origin to JSON."""
        return {
            "lineage": [list(each) for each in self.lineage],
            "snapshot": self.snapshot,
            "batch": self.batch,
            "outputs": list(self.outputs),
            "states": self.states,
        }


def from_json(raw: Mapping[str, Any]) -> Origin:
    """Read an origin from its JSON. Raises TypeError, ValueError or KeyError if it is not the JSON of an origin."""
    lineage = tuple((_text(name), _text(job)) for name, job in raw["lineage"])
    if not lineage:
        raise ValueError("a clone has a job that it was cloned from")
    if type(raw["batch"]) is not int:
        raise TypeError(f"{raw['batch']!r} is no whole number")
    outputs = tuple(_text(each) for each in raw["outputs"])
    return Origin(lineage, _text(raw["snapshot"]), raw["batch"], outputs, _text(raw["states"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value

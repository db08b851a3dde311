"""The headers of a state store's files, which are stored as JSON in the metadata of the file's Arrow schema."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from milepost.state.store.rows import Families, Family, prefix_of

FORMAT = 2
"""The format of new files. Format 1 differs only in its record batches (`milepost.state.store.format.files`)."""

Commit = tuple[int, str]
"""A commit: its version and its id."""


@dataclass(frozen=True, slots=True)
class Block:
    """The description of a record batch in the header of its file: the offset in bytes from the end of the header, the
    length, the digest, the number of rows, and the first and the last key.

    Keys begin with the number of their column family.
    """

    offset: int
    length: int
    rows: int
    sha256: str
    first: bytes
    last: bytes


@dataclass(frozen=True, slots=True)
class DeltaHead:
    """The header of a commit's file.

    ``lineage`` lists some of the commits before this one, newest first and without a gap, but not necessarily back to
    version 1. ``families``, the column families, and ``keys``, the number of keys, describe the version that the commit
    made.
    """

    version: int
    lineage: tuple[Commit, ...]
    families: Families
    keys: int


@dataclass(frozen=True, slots=True)
class RunHead:
    """The header of a file of a `Run`. The file contains merged changes of the versions after ``after``, up to and
    including ``version``.
    """

    after: int
    version: int


@dataclass(frozen=True, slots=True)
class RunPart:
    """A file of a `Run`, as a snapshot lists it; ``size`` is the size of its record batches in bytes."""

    name: str
    size: int
    rows: int
    first: bytes
    last: bytes


@dataclass(frozen=True, slots=True)
class Run:
    """The merged changes of several commits: sorted rows in which each key appears once, for the versions after
    ``after``, up to and including ``version``.

    Its parts are files whose ranges of keys do not overlap, sorted by key. A run of a single version may consist of the
    file of the commit itself.
    """

    after: int
    version: int
    parts: tuple[RunPart, ...]

    @property
    def size(self) -> int:
        """The size of all record batches of the run in bytes."""
        return sum(part.size for part in self.parts)

    @property
    def is_commit(self) -> bool:
        """Whether the run is a commit that was not merged with others."""
        return self.version == self.after + 1 and all(part.name.endswith(".delta") for part in self.parts)


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """The header of a snapshot's file. It lists the runs, oldest first, that together are the state of one commit."""

    version: int
    id: str
    runs: tuple[Run, ...]


Head = DeltaHead | RunHead | SnapshotHead


def head_to_json(head: Head) -> dict[str, Any]:
    """Turn the header of a file into a JSON document."""
    if isinstance(head, DeltaHead):
        return {
            "kind": "delta",
            "version": head.version,
            "lineage": [list(commit) for commit in head.lineage],
            "families": {name: [one.number, one.multiple] for name, one in head.families.by_name.items()},
            "next_family": head.families.next_number,
            "keys": head.keys,
        }
    if isinstance(head, RunHead):
        return {"kind": "run", "after": head.after, "version": head.version}
    runs = [
        {
            "after": run.after,
            "version": run.version,
            "parts": [
                {
                    "name": part.name,
                    "size": part.size,
                    "rows": part.rows,
                    "first": key_to_json(part.first),
                    "last": key_to_json(part.last),
                }
                for part in run.parts
            ],
        }
        for run in head.runs
    ]
    return {"kind": "snapshot", "version": head.version, "id": head.id, "runs": runs}


def head_from_json(document: dict[str, Any]) -> Head:
    """Turn a JSON document into the header of a file. Raises a built-in exception such as KeyError or ValueError if the
    document is not a header.
    """
    kind, version = document["kind"], int(document["version"])
    if kind == "delta":
        lineage = tuple((int(older), str(id)) for older, id in document["lineage"])
        if [older for older, _ in lineage] != list(range(version - 1, version - 1 - len(lineage), -1)):
            raise ValueError("its lineage has a gap")
        families = {str(name): Family(int(n), bool(multiple)) for name, (n, multiple) in document["families"].items()}
        return DeltaHead(version, lineage, Families(families, int(document["next_family"])), int(document["keys"]))
    if kind == "run":
        return RunHead(int(document["after"]), version)
    if kind == "snapshot":
        runs = tuple(
            Run(
                int(run["after"]),
                int(run["version"]),
                tuple(
                    RunPart(
                        str(part["name"]),
                        int(part["size"]),
                        int(part["rows"]),
                        key_from_json(part["first"]),
                        key_from_json(part["last"]),
                    )
                    for part in run["parts"]
                ),
            )
            for run in document["runs"]
        )
        return SnapshotHead(version, str(document["id"]), runs)
    raise ValueError(f"it is of a kind {kind!r}, which this version does not know")


def block_to_json(block: Block) -> dict[str, Any]:
    """Turn a `Block` into a JSON document."""
    return {
        "offset": block.offset,
        "length": block.length,
        "rows": block.rows,
        "sha256": block.sha256,
        "first": key_to_json(block.first),
        "last": key_to_json(block.last),
    }


def block_from_json(document: dict[str, Any]) -> Block:
    """Turn a document of `block_to_json` back into a `Block`. Raises the errors of `head_from_json`."""
    offset, length, rows = (int(document[name]) for name in ("offset", "length", "rows"))
    first, last = key_from_json(document["first"]), key_from_json(document["last"])
    return Block(offset, length, rows, str(document["sha256"]), first, last)


def key_to_json(key: bytes) -> list[Any]:
    """Write a key as the number of its column family and the rest of its bytes in base64."""
    return [int.from_bytes(key[:4], "big"), base64.b64encode(key[4:]).decode()]


def key_from_json(pair: list[Any]) -> bytes:
    """Read a key that `key_to_json` wrote."""
    number, text = pair
    return prefix_of(int(number)) + base64.b64decode(text, validate=True)

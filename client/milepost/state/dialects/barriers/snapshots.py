"""Storage for the snapshots of a pipeline: a part for each task, and a manifest, which lists the parts of one
snapshot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from milepost.state.coders import JsonCoder
from milepost.state.dialects.barriers.nodes import Part, Record
from milepost.state.errors import StateDamaged
from milepost.state.store import Created, StateFiles
from milepost.state.store.files.contract import create_once


class SnapshotStore(ABC):
    """Storage for the snapshots of a pipeline. A failed write raises `FilesError`, and a write of unknown outcome
    `WriteUnknown`.
    """

    @abstractmethod
    def save(self, part: Part) -> str:
        """Make one task's part of a snapshot durable, and return its name. A restore ignores the part until `complete`
        lists it.
        """

    @abstractmethod
    def complete(self, epoch: int, parts: Mapping[str, str]) -> Created:
        """Complete the snapshot number ``epoch``; ``parts`` has the name of each task's part. `Created.EXISTS` means
        that another snapshot has this number, and stays.
        """

    @abstractmethod
    def latest(self) -> tuple[int, dict[str, Part]]:
        """Return the number of the newest complete snapshot and the parts of its tasks; 0 and no parts before the first
        snapshot. Raises `FilesError` or `StateDamaged`.
        """


class FileSnapshots(SnapshotStore):
    """Stores the snapshots of a pipeline as JSON files: one for each task's part, and a manifest for each complete
    snapshot.

    The name of a part contains the SHA-256 of its content, so no part replaces another. The name of a manifest is the
    number of its snapshot, and its content begins with a SHA-256 over the number and the rest, so it never passes for
    the manifest of another snapshot. A manifest is created only once: if two coordinators continue from one snapshot,
    only one of them completes the next.
    """

    def __init__(self, files: StateFiles, directory: str = "pipeline") -> None:
        self._files, self._directory, self._json = files, directory, JsonCoder()

    def save(self, part: Part) -> str:
        log = [[sender, *record] for sender, record in part.log]
        content = self._json.encode([part.state, log, [list(record) for record in part.output]])
        name = f"{sha256(content).hexdigest()}-{len(content)}"
        if create_once(self._files, path := f"{self._directory}/parts/{name}", content) is Created.EXISTS:
            raise StateDamaged(path, "it is there with other bytes")
        return name

    def complete(self, epoch: int, parts: Mapping[str, str]) -> Created:
        body = self._json.encode(dict(parts))
        number = f"{epoch:010d}"
        content = sha256(number.encode() + body).hexdigest().encode() + body
        return create_once(self._files, f"{self._directory}/epochs/{number}", content)

    def latest(self) -> tuple[int, dict[str, Part]]:
        manifests = [one for one in self._files.list(f"{self._directory}/epochs") if one.name[-10:].isdigit()]
        if not manifests:
            return 0, {}
        newest = max(manifests, key=lambda info: info.name)
        number, content = newest.name[-10:], self._files.read(newest.name, 0, newest.size)
        parts = self._checked(newest.name, content[:64].decode("latin-1"), content[64:], number.encode())
        return int(number), {task: self._load(name) for task, name in parts.items()}

    def _load(self, name: str) -> Part:
        path, (digest, _, size) = f"{self._directory}/parts/{name}", name.partition("-")
        state, log, output = self._checked(path, digest, self._files.read(path, 0, int(size) + 1))
        return Part(state, [(sender, Record(*one)) for sender, *one in log], [Record(*one) for one in output])

    def _checked(self, path: str, digest: str, content: bytes, number: bytes = b"") -> Any:
        if sha256(number + content).hexdigest() != digest:
            raise StateDamaged(path, "its bytes do not have its digest")
        return self._json.decode(content)

"""Keeps notes about the nodes of this machine, so that the next run removes what a killed owner left behind.

The owner of a node is the process that started it. ``python -m testbed.node.registry DIRECTORY`` removes the nodes
below a directory that is to be deleted; if the owner of one still lives, it ends with status 1.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed import lifetimes
from testbed.node import kernel
from testbed.node.leftovers import remove_leftovers
from testbed.node.network import Network
from testbed.process import ProcessFailed

_NOTES = Path("/run/milepost-nodes")


@dataclass(frozen=True)
class Note:
    """What is noted about a node: the name of its network, the directory of its files, its owner, and the settings that
    the kernel had before it.
    """

    name: str
    directory: str
    owner: int
    owner_began: int
    kernel: dict[str, str]

    @property
    def abandoned(self) -> bool:
        """Whether the node's owner is gone."""
        return lifetimes.began(self.owner) != self.owner_began


def register(directory: Path) -> Note:
    """Note down a node that this process is about to start."""
    owner, began = lifetimes.own()
    _NOTES.mkdir(exist_ok=True)
    # Other nodes have changed the settings already, so those that were noted before them count.
    before = next((other.kernel for other in _notes()), None) or kernel.settings()
    note = Note(f"milepost-{secrets.token_hex(4)}", str(directory.resolve()), owner, began, before)
    unfinished = _NOTES / f".{note.name}"
    unfinished.write_text(json.dumps(asdict(note)))
    os.rename(unfinished, _NOTES / note.name)
    return note


def remove(note: Note) -> None:
    """Remove what a node left in the kernel, and its note. Idempotent. Raises `ProcessFailed`."""
    network = Network(note.name)
    remove_leftovers(network.path, Path(note.directory))
    network.remove()
    (_NOTES / note.name).unlink(missing_ok=True)
    if not _notes():
        kernel.restore(note.kernel)


def remove_abandoned() -> list[Note]:
    """Remove every node whose owner is gone, and return their notes. Raises `ProcessFailed`."""
    found = [note for note in _notes() if note.abandoned]
    for note in found:
        remove(note)
    return found


def vacate(directory: Path) -> None:
    """Remove every node below ``directory`` whose owner is gone. Call this before the directory is deleted.

    Otherwise mounts of such a node would be among the files to delete. Raises `ProcessFailed`, also if there is a node
    whose owner lives.
    """
    for note in _notes():
        if Path(note.directory).is_relative_to(directory.resolve()):
            if not note.abandoned:
                raise ProcessFailed(f"a node of the process {note.owner} runs in {note.directory}")
            remove(note)


def _notes() -> list[Note]:
    return [Note(**json.loads(path.read_text())) for path in _NOTES.glob("[!.]*")]


if __name__ == "__main__":
    try:
        vacate(Path(sys.argv[1]))
    except (ProcessFailed, PermissionError) as failure:
        sys.exit(f"{sys.argv[1]}: {failure}")

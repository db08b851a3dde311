"""Notes about the nodes of this machine, so that what a killed owner left behind is removed by the next who comes.

``python -m testbed.node.registry DIRECTORY`` removes what is below a directory that is to be deleted, or ends with 1.
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
    """A node: the name of its network, where its files are, who owns it, and what the kernel was set to before it."""

    name: str
    directory: str
    owner: int
    owner_began: int
    kernel: dict[str, str]

    @property
    def abandoned(self) -> bool:
        """Whether its owner is gone."""
        return lifetimes.began(self.owner) != self.owner_began


def register(directory: Path) -> Note:
    """Note down a node that this process is about to start."""
    owner, began = lifetimes.own()
    _NOTES.mkdir(exist_ok=True)
    before = next((other.kernel for other in _notes()), None) or kernel.settings()  # others have changed them already
    note = Note(f"milepost-{secrets.token_hex(4)}", str(directory.resolve()), owner, began, before)
    unfinished = _NOTES / f".{note.name}"
    unfinished.write_text(json.dumps(asdict(note)))
    os.rename(unfinished, _NOTES / note.name)
    return note


def remove(note: Note) -> None:
    """Remove what the kernel has of a node, and its note. Idempotent. Raises `ProcessFailed`."""
    network = Network(note.name)
    remove_leftovers(network.path, Path(note.directory))
    network.remove()
    (_NOTES / note.name).unlink(missing_ok=True)
    if not _notes():
        kernel.restore(note.kernel)


def remove_abandoned() -> list[Note]:
    """Remove every node whose owner is gone; which ones. Raises `ProcessFailed`."""
    found = [note for note in _notes() if note.abandoned]
    for note in found:
        remove(note)
    return found


def vacate(directory: Path) -> None:
    """Remove every node below ``directory`` whose owner is gone, before its files are: its mounts are among those.

    Raises `ProcessFailed`, also when a node whose owner lives is there.
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

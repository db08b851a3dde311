"""The list of cells: deployments side by side, each with a name and the addresses of its replicas."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from milepost.wire import cells_digest, checked_cells, parsed_cells

_NAMED: Final = re.compile(r"\s*[^\s=:/,;]*\s*=")


@dataclass(frozen=True)
class CellList:
    """The cells by name, each with the addresses of its replicas."""

    cells: Mapping[str, tuple[str, ...]]
    digest: str = field(init=False)
    """The digest of the names. Clients and cells that have the same one begin a job in the same cell."""

    def __post_init__(self) -> None:
        names = checked_cells(self.cells)
        object.__setattr__(self, "cells", {name: self.cells[name] for name in names})
        object.__setattr__(self, "digest", cells_digest(names))

    @classmethod
    def parse(cls, text: str) -> CellList:
        """Read a list of cells, as `milepost.wire.parsed_cells` does. Raises ValueError."""
        return cls(parsed_cells(text))

    @property
    def names(self) -> Sequence[str]:
        """The names of all cells, sorted."""
        return tuple(self.cells)

    def chosen(self, job: str) -> str:
        """Return the cell in which a job begins, by rendezvous hashing (Thaler and Ravishankar, 1998): a new cell
        takes its share of the jobs from all others, and no other job gets another cell.
        """
        return max(self.cells, key=lambda name: (_weight(name, job), name))


def is_cell_list(text: str) -> bool:
    """Return whether a text is a list of cells, rather than the addresses of one deployment."""
    return _NAMED.match(text) is not None


def _weight(cell: str, job: str) -> bytes:
    return hashlib.sha256(f"{cell}/{job}".encode()).digest()

"""The list of cells: deployments side by side, each with a name and the addresses of its replicas."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from milepost.wire import cells_digest, checked_cells

_NAMED: Final = re.compile(r"\s*[^\s=:/,;]*\s*=")
_COMMENT: Final = re.compile(r"#.*")


@dataclass(frozen=True)
class CellList:
    """The cells by name, each with the addresses of its replicas."""

    cells: Mapping[str, tuple[str, ...]]
    digest: str = field(init=False)
    """The digest of the names. Clients and cells that have the same one begin a job in the same cell."""

    def __post_init__(self) -> None:
        names = checked_cells(self.cells)
        if not names:
            raise ValueError("a list of cells names at least one")
        for name in names:
            if not self.cells[name]:
                raise ValueError(f"the cell {name!r} has no address")
        object.__setattr__(self, "cells", {name: self.cells[name] for name in names})
        object.__setattr__(self, "digest", cells_digest(names))

    @classmethod
    def parse(cls, text: str) -> CellList:
        """Read a list such as ``a=http://a-0:8080,http://a-1:8080;b=http://b-0:8080``. A line end separates cells as
        ``;`` does, and ``#`` begins a comment. Raises ValueError.
        """
        found: dict[str, tuple[str, ...]] = {}
        for line in text.splitlines():
            for part in _COMMENT.sub("", line).split(";"):
                if not part.strip():
                    continue
                name, equals, addresses = (each.strip() for each in part.partition("="))
                if not equals:
                    raise ValueError("a list of cells has NAME=ADDRESS,ADDRESS for each, with ; between them")
                if name in found:
                    raise ValueError(f"a list of cells has each name once, and this one has {name!r} twice")
                found[name] = tuple(each.strip() for each in addresses.split(",") if each.strip())
        return cls(found)

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

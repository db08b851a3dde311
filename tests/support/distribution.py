"""Leave another distribution's metadata where an installer would, and look a backend up with it on the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def install(directory: Path, entry: str, name: str = "toy-backend") -> None:
    """Make a distribution in ``directory`` whose one entry point, ``scheme = module:BACKEND``, adds a backend."""
    metadata = directory / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[milepost.backends]\n{entry}\n")


@contextmanager
def on_the_path(directory: Path) -> Iterator[None]:
    """What is installed in ``directory`` is found within the block."""
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path.remove(str(directory))

"""The user's cache, as the programs in tools/ know it: for what takes minutes to make and suits every checkout."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory(name: str) -> Path:
    """A directory of its own in it, made if it is missing. MILEPOST_CACHE names another place."""
    home = os.environ.get("MILEPOST_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(home) / "milepost" / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory

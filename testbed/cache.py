"""Finds the user's cache, which the programs in tools/ use, too: what is slow to make is kept there."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory(name: str) -> Path:
    """Return the directory ``name`` of the cache, and make it if it is missing. MILEPOST_CACHE names another cache."""
    home = os.environ.get("MILEPOST_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(home) / "milepost" / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory

"""Write a file that appears under its name only once it is whole."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path


def copied(chunks: Iterable[bytes], target: Path) -> int:
    """Write all chunks to a file beside ``target``, and rename it then; return how many bytes there are.

    What was under the name before stays there until then. A link is followed, and what is no file (a pipe, a terminal)
    is written as it is.
    """
    final = target.resolve()
    if final.exists() and not final.is_file():
        return _written(chunks, final, "wb")
    part = final.with_name(f".{final.name[:200]}.{uuid.uuid4().hex[:8]}.part")
    try:
        size = _written(chunks, part, "xb")
        if final.exists():
            shutil.copymode(final, part)
        part.replace(final)
    finally:
        part.unlink(missing_ok=True)
    return size


def _written(chunks: Iterable[bytes], path: Path, mode: str) -> int:
    size = 0
    with path.open(mode) as file:
        for chunk in chunks:
            size += file.write(chunk)
        file.flush()
        if mode == "xb":
            os.fsync(file.fileno())
    return size

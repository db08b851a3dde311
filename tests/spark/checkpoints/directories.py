"""Checkpoint directories as Spark leaves them, without a Spark."""

from __future__ import annotations

from pathlib import Path


def log(directory: Path, batch: int, *, committed: bool) -> None:
    """Spark's log of ``batch``: its offsets, and its commit if it was ``committed``; and the query's ``metadata``."""
    put(directory, "metadata", '{"id":"5f0b"}')
    put(directory, f"offsets/{batch}", f'v1\n{{"conf":{{}}}}\n{{"logOffset":{batch}}}')
    if committed:
        put(directory, f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')


def put(directory: Path, path: str, content: str | bytes) -> None:
    """One file of a checkpoint."""
    target = directory / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode() if isinstance(content, str) else content)


def tree(directory: Path) -> dict[str, bytes]:
    """All files by relative path."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}

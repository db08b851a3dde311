"""Damage to a job's files where the service stores them."""

from __future__ import annotations

from pathlib import Path

import httpx

from testbed.server import ServerProcess


def blob_of(server: ServerProcess, store: str, path: str) -> Path:
    """The file in which the service keeps the bytes of a file of a job; no other of that job may have the same."""
    answer = httpx.get(
        f"{server.url}/webhdfs/v1/jobs/{store}/{path}", params={"op": "OPEN"}, follow_redirects=True, timeout=60.0
    )
    assert answer.status_code == 200, answer.text
    stored = [blob for blob in (server.directory / "blobs").rglob(f"{store}/**/*") if blob.is_file()]
    (found,) = [blob for blob in stored if blob.read_bytes() == answer.content]
    return found


def flip(blob: Path) -> None:
    """Change one byte in the middle."""
    content = bytearray(blob.read_bytes())
    content[len(content) // 2] ^= 0x01
    blob.write_bytes(content)

"""Write the files of a job's batches as Spark does, over WebHDFS."""

from __future__ import annotations

import httpx

from testbed.server import ServerProcess


def begin_batch(server: ServerProcess, store: str, batch: int, epoch: int = 1) -> None:
    """Write what Spark writes when it begins a batch, under an epoch of the store."""
    _write(server, store, f"checkpoint/offsets/{batch}", epoch)


def commit_batch(server: ServerProcess, store: str, batch: int, epoch: int = 1) -> None:
    """Write what Spark writes when a batch is committed, under an epoch of the store: the service makes a
    snapshot.
    """
    _write(server, store, f"checkpoint/commits/{batch}", epoch)


def _write(server: ServerProcess, store: str, path: str, epoch: int) -> None:
    fenced = {f"X-Milepost-{store}-{epoch}": ""}
    with httpx.Client(trust_env=False, timeout=60.0) as http:
        asked = f"{server.url}/webhdfs/v1/jobs/{store}/{path}?op=CREATE"
        there = http.put(asked, headers=fenced).headers["location"]
        assert http.put(there, headers=fenced, content=b"v1\n{}").status_code == 201

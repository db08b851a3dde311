"""Write a file of a job as Spark does, over WebHDFS."""

from __future__ import annotations

import httpx

from testbed.server import ServerProcess


def commit_batch(server: ServerProcess, store: str, batch: int, epoch: int = 1) -> None:
    """Write what Spark writes when a batch is committed, under an epoch of the store: the service makes a
    snapshot.
    """
    fenced = {f"X-Milepost-{store}-{epoch}": ""}
    with httpx.Client(trust_env=False, timeout=60.0) as http:
        asked = f"{server.url}/webhdfs/v1/jobs/{store}/checkpoint/commits/{batch}?op=CREATE"
        there = http.put(asked, headers=fenced).headers["location"]
        assert http.put(there, headers=fenced, content=b"v1\n{}").status_code == 201

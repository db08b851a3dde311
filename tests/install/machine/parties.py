"""What is on the network of three machines beside them: the storage of the replicas, and those who write.

Run there as ``python -m tests.install.machine.parties storage DIRECTORY`` or ``… writers DIRECTORY TOKEN URL…``, until
SIGTERM. The first writes ``places.json`` once it serves; the second ``written.json`` at the end.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from itertools import pairwise
from pathlib import Path
from types import FrameType

from testbed.replicated import BUCKET
from testbed.seaweedfs import SeaweedFS
from testbed.writers import Writers
from testbed.zookeeper import ensemble

STORE = "upgraded"
SESSION_SECONDS = 30
"""However busy the machine is, the leadership is to move only when it is handed over."""


def storage(directory: Path, over: threading.Event) -> None:
    """Run ZooKeeper and S3."""
    with ensemble(directory / "zookeeper", tick_seconds=2.0) as zookeepers, SeaweedFS(directory / "s3") as s3:
        s3.start().make_bucket(BUCKET)
        _write(
            directory / "places.json",
            {
                "pointers": f"zookeeper://{zookeepers.hosts}/milepost?session_timeout={SESSION_SECONDS}",
                "blobs": s3.url(BUCKET),
            },
        )
        over.wait()


def writers(directory: Path, token: str, urls: list[str], over: threading.Event) -> None:
    """Write until it is over, and look for each acknowledged write."""
    with Writers(urls, STORE, token=token) as running:
        over.wait()
    moments = running.acknowledged()
    account = {
        "writes": len(moments),
        "pause": max((late - early for early, late in pairwise(moments)), default=0.0),
        "lost": running.lost(),
        "errors": [repr(error) for error in running.errors()],
    }
    _write(directory / "written.json", account)


def _write(path: Path, content: object) -> None:
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(content))
    unfinished.rename(path)


def main() -> None:
    """Be one of the parties."""
    over = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        over.set()

    signal.signal(signal.SIGTERM, end)
    match sys.argv[1:]:
        case ["storage", directory]:
            storage(Path(directory), over)
        case ["writers", directory, token, *urls]:
            writers(Path(directory), token, urls, over)
        case other:
            sys.exit(f"parties: not {other}")


if __name__ == "__main__":
    main()

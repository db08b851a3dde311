"""Check the guarantees of watches over many real fail-overs on each pointer store.

    python -m tests.system.watches [--on embedded zookeeper kubernetes] [--rounds 50] [--seed 1] [--directory DIR]

Replicas run over one SQLite file, over three ZooKeepers and S3, and over ConfigMaps of a real Kubernetes API and HDFS.
Each round ends the leader: by SIGKILL, by SIGTERM or by asking it to step down. The exit status is 1 after a complaint.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from testbed.kubernetes.deployment import KubernetesDeployment
from testbed.kubernetes.programs import ProgramAbsent
from testbed.replicas import Replicas
from testbed.replicated import ReplicatedTestbed
from tests.system.watches.trial import Embedded, play

_MEMORY = Path("/dev/shm")
PLACES: dict[str, Callable[[Path], Replicas]] = {
    "embedded": Embedded,
    "zookeeper": lambda directory: ReplicatedTestbed(directory, count=2),
    "kubernetes": lambda directory: KubernetesDeployment(directory, count=2),
}


def main() -> int:
    """Play a trial on each place; the number of those with complaints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", nargs="+", choices=PLACES, default=list(PLACES))
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, default=_MEMORY if _MEMORY.is_dir() else None)
    given = parser.parse_args()
    wrong = 0
    for place in given.on:
        with tempfile.TemporaryDirectory(dir=given.directory, prefix="milepost-watches-") as directory:
            began = time.monotonic()
            try:
                deployment = PLACES[place](Path(directory))
            except ProgramAbsent as absent:
                print(f"{place}: not played: {absent}", flush=True)
                continue
            with deployment:
                outcome = play(deployment.start(), given.rounds, given.seed, partial(print, f"{place}:", flush=True))
        print(f"{place}: {outcome} in {time.monotonic() - began:.0f} s", flush=True)
        for complaint in outcome.complaints:
            print(f"  {complaint}")
        wrong += bool(outcome.complaints)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

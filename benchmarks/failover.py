"""How long writes wait when a leader dies, stops, is paused, or what it stands on loses its own.

    python -m benchmarks.failover [--on kubernetes] [--rounds 20] [--fault killed …] [--directory DIR]

Three replicas over three ZooKeepers and S3, or over Kubernetes and HDFS, and four writers that go through the SDK all
the while. A round breaks one thing, waits until every writer writes again, and mends it. Told is the longest time from
the fault, or from the last acknowledgement after it, to the next acknowledged write of anybody. At the end every
acknowledged write must be there, the SDK must have let no error through, and a session from before the first fault must
live and hold its lock and its epoch; otherwise the exit status is 1.

The rounds of "nothing" break nothing: what they tell is the machine's own share in the others, and comes off no figure.
ZooKeeper and etcd sync each write; their files lie in memory unless another directory is named, for a disk that stalls
for seconds would be measured instead of the fail-over.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from milepost import Client
from milepost.session import Session
from testbed.kubernetes.deployment import LEASE_SECONDS, KubernetesDeployment
from testbed.replicas import Replicas
from testbed.replicated import SESSION_SECONDS, ReplicatedTestbed
from testbed.writers import Writers

STORE = "benchmark"
_WITHIN_SECONDS = 60.0
_MEMORY = Path("/dev/shm")


@contextmanager
def nothing(deployment: Replicas) -> Iterator[None]:
    """No fault."""
    deployment.leader()
    yield


@contextmanager
def killed(deployment: Replicas) -> Iterator[None]:
    """SIGKILL to the leader."""
    leader = deployment.leader()
    leader.kill()
    yield
    leader.start(until="/readyz")


@contextmanager
def stopped(deployment: Replicas) -> Iterator[None]:
    """SIGTERM to the leader."""
    leader = deployment.leader()
    leader.terminate()
    yield
    leader.wait()
    leader.start(until="/readyz")


@contextmanager
def paused(deployment: Replicas) -> Iterator[None]:
    """SIGSTOP to the leader, woken after another one leads."""
    leader = deployment.leader()
    leader.pause()
    yield
    leader.resume()
    leader.wait_for("/leader", 503)


@contextmanager
def zookeeper_killed(deployment: ReplicatedTestbed) -> Iterator[None]:
    """SIGKILL to the leader of the ZooKeepers."""
    leader = deployment.zookeepers.leader()
    leader.kill()
    yield
    leader.serve()


@contextmanager
def api_killed(deployment: KubernetesDeployment) -> Iterator[None]:
    """SIGKILL to the API server, which is started again at once, as its node would."""
    deployment.api.server.kill()
    deployment.api.start()
    yield


@contextmanager
def etcd_killed(deployment: KubernetesDeployment) -> Iterator[None]:
    """SIGKILL to etcd, which is started again at once."""
    deployment.api.etcd.kill()
    deployment.api.start()
    yield


D = TypeVar("D", bound=Replicas)
Fault = Callable[[D], AbstractContextManager[None]]

OF_REPLICAS: dict[str, Fault[Replicas]] = {"nothing": nothing, "killed": killed, "stopped": stopped, "paused": paused}
ON_ZOOKEEPER: dict[str, Fault[ReplicatedTestbed]] = {**OF_REPLICAS, "zookeeper-killed": zookeeper_killed}
ON_KUBERNETES: dict[str, Fault[KubernetesDeployment]] = {
    **OF_REPLICAS,
    "api-killed": api_killed,
    "etcd-killed": etcd_killed,
}


def gap_after(moment: float, acknowledged: Sequence[float]) -> float:
    """The longest wait for an acknowledgement since ``moment``."""
    moments = [moment, *(each for each in acknowledged if each > moment)]
    return max(later - earlier for earlier, later in itertools.pairwise(moments))


def rounds_of(fault: Fault[D], deployment: D, writers: Writers, count: int) -> list[float]:
    """The gap of each round."""
    gaps: list[float] = []
    for _ in range(count):
        for replica in deployment.replicas:
            replica.wait_for("/readyz")
        deployment.leader()
        writers.wait_for_write_after(time.monotonic(), _WITHIN_SECONDS)
        moment = time.monotonic()
        with fault(deployment):
            time.sleep(SESSION_SECONDS / 2)
            writers.wait_for_write_after(time.monotonic(), _WITHIN_SECONDS)
            gaps.append(gap_after(moment, writers.acknowledged()))
    return gaps


def told(fault: str, gaps: Sequence[float]) -> str:
    """A line of the table."""
    ordered = sorted(gaps)
    p99 = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
    return f"{fault:<18}{len(gaps):>7}{statistics.median(gaps):>9.2f}{p99:>9.2f}{ordered[-1]:>9.2f}"


def outlived(session: Session) -> list[str]:
    """What of a session from before all faults is not as it was, in words."""
    store = session.store(STORE)
    wrong: list[str] = []
    if session.lost:
        wrong.append("the session was lost")
    if session.id not in store.get("held").locks:
        wrong.append("the session's lock was lost")
    epoch = session.store("led").current_epoch()
    if (epoch.epoch, epoch.session) != (1, session.id):
        wrong.append(f"the session's epoch was lost: {epoch}")
    return wrong


def measure(deployment: D, faults: Mapping[str, Fault[D]], rounds: int) -> int:
    """Print the table; the exit status."""
    with Client(deployment.urls, timeout=_WITHIN_SECONDS) as client, client.session("holder") as session:
        session.store(STORE).add_and_lock("held", b"held")
        session.store("led").campaign()
        print("seconds without an acknowledged write after the fault")
        print(f"{'leader':<18}{'rounds':>7}{'median':>9}{'p99':>9}{'worst':>9}", flush=True)
        with Writers(deployment.urls, STORE) as writers:
            for name, fault in faults.items():
                print(told(name, rounds_of(fault, deployment, writers, rounds)), flush=True)
        handles = sum(len(account.added) + 1 for account in writers.accounts)
        wrong = [*outlived(session), *writers.lost(), *(f"let through: {error!r}" for error in writers.errors())]
    acknowledged = len(writers.acknowledged())
    print(f"{acknowledged:,} writes were acknowledged, {handles:,} handles in the end; {len(wrong)} complaints")
    for complaint in wrong:
        print(f"WRONG: {complaint}")
    return 1 if wrong else 0


def main() -> int:
    """The entry point; the exit status."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rounds", type=int, default=20)
    flags.add_argument("--on", choices=["zookeeper", "kubernetes"], default="zookeeper")
    flags.add_argument("--fault", choices=sorted({*ON_ZOOKEEPER, *ON_KUBERNETES}), action="append")
    flags.add_argument("--directory", type=Path, default=_MEMORY if _MEMORY.is_dir() else None)
    options = flags.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        if options.on == "kubernetes":
            print(f"Kubernetes and HDFS, a lease of {LEASE_SECONDS:g} s")
            with KubernetesDeployment(Path(directory)) as on_kubernetes:
                return measure(on_kubernetes.start(), _chosen(ON_KUBERNETES, options.fault), options.rounds)
        print(f"ZooKeeper and S3, a session timeout of {SESSION_SECONDS:g} s")
        with ReplicatedTestbed(Path(directory)) as on_zookeeper:
            return measure(on_zookeeper.start(), _chosen(ON_ZOOKEEPER, options.fault), options.rounds)


def _chosen(faults: dict[str, Fault[D]], names: Sequence[str] | None) -> dict[str, Fault[D]]:
    return {name: fault for name, fault in faults.items() if not names or name in names}


if __name__ == "__main__":
    sys.exit(main())

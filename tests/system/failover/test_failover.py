"""Leaders die, stop and are paused under a load of writes: nothing acknowledged is lost, and no error comes through."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from benchmarks.failover import ON_KUBERNETES, ON_ZOOKEEPER, D, Fault, gap_after
from milepost import Client, Fenced, OutcomeUnknown, SteppedDown
from testbed.kubernetes.deployment import KubernetesDeployment
from testbed.replicated import ReplicatedTestbed
from testbed.writers import Writers

pytestmark = pytest.mark.long

WITHIN_SECONDS = 60.0


@pytest.mark.parametrize("fault", ON_ZOOKEEPER)
def test_writes_go_on_over_zookeeper(deployment: ReplicatedTestbed, fault: str) -> None:
    writes_go_on(deployment, ON_ZOOKEEPER[fault], f"writes-{fault}")


@pytest.mark.kubernetes
@pytest.mark.parametrize("fault", ON_KUBERNETES)
def test_writes_go_on_over_kubernetes(on_kubernetes: KubernetesDeployment, fault: str) -> None:
    writes_go_on(on_kubernetes, ON_KUBERNETES[fault], f"writes-{fault}")


def test_writes_go_on_while_leaders_are_asked_to_step_down(deployment: ReplicatedTestbed) -> None:
    """By two at once, and again with one of the others frozen, which the election may choose first."""
    writes_go_on(deployment, stepping_down, "writes-stepping-down")


@contextmanager
def stepping_down(deployment: ReplicatedTestbed) -> Iterator[None]:
    """Two leaders in turn give the lead up; whoever asks too late for a term is told so, and deposes nobody."""
    for frozen in (False, True):
        leader = deployment.leader()
        other = next(replica for replica in deployment.replicas if replica is not leader)
        if frozen:
            other.pause()
        with Client(leader.url, timeout=WITHIN_SECONDS) as client, ThreadPoolExecutor(2) as pool:
            term = client.status().term
            assert term is not None
            answers = [pool.submit(client.step_down, term) for _ in range(2)]
            ends = [answer.exception() or answer.result() for answer in answers]
        assert {end.term for end in ends if isinstance(end, SteppedDown)} == {term}
        # Who asks too late may be sent to the next leader, and the frozen one never answers.
        told = (SteppedDown, Fenced, OutcomeUnknown) if frozen else (SteppedDown, Fenced)
        assert all(isinstance(end, told) for end in ends), ends
    yield
    other.resume()


def writes_go_on(deployment: D, fault: Fault[D], store: str) -> None:
    """Show that writes go on through the fault, and that locks, sessions and epochs are as before."""
    with (
        Client(deployment.urls, timeout=WITHIN_SECONDS) as client,
        client.session("holder", ttl=10) as session,
    ):
        session.store(store).add_and_lock("held", b"held")
        led = session.store(f"{store}-led")
        epoch = led.campaign()
        with Writers(deployment.urls, store) as writers:
            writers.wait_for_write_after(time.monotonic(), WITHIN_SECONDS)
            with fault(deployment):
                writers.wait_for_write_after(time.monotonic(), WITHIN_SECONDS)
            writers.wait_for_write_after(time.monotonic(), WITHIN_SECONDS)
        assert writers.errors() == []
        assert writers.lost() == []
        assert not session.lost
        assert session.store(store).get("held").locks == (session.id,)
        assert led.current_epoch() == epoch
        led.add_and_lock("under-the-epoch", b"still fenced and still ours")


def test_a_gap_is_the_longest_wait_since_the_fault() -> None:
    assert gap_after(10.0, [9.0, 10.5, 14.0, 14.2]) == 3.5
    assert gap_after(10.0, [9.0, 13.0]) == 3.0

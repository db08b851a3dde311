"""``python -m demo.kube``: a streaming job in a real cluster loses its driver's Pod in the middle of a batch.

Milepost runs as the chart installs it: three replicas, pointers in ConfigMaps, states on HDFS. Two Pods run the same
driver, and one of them leads. It is deleted with no grace where it has computed a batch and not published it; when the
other one has published a batch, the service's leader is deleted as well. Exits with 1 if a flight is lost or doubled.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from demo.cli import clear, run_demo
from demo.kube.pods import JOB, driver_job, reader_spec
from demo.kube.service import TAG, Cluster
from demo.processes import ROOT, DemoFailed, border
from demo.report.comparison import Comparison
from demo.report.progress import Progress
from demo.spark.flights import all_flights, write_files
from demo.timeline import (
    FINISHED,
    HALTED,
    KILLED,
    LEADS,
    PUBLISHED,
    SERVICE_KILLED,
    STANDBY,
    Event,
    EventLog,
    take_overs,
)
from testbed.cluster.choice import choose_cluster
from testbed.cluster.cluster import KubernetesCluster
from testbed.images.contents import USER
from testbed.node import registry
from testbed.node.preload import furnish

_FILES = 10
_HALT_IN = 3
_TTL = 15.0
_DEADLINE_SECONDS = 240.0
_OUTPUT = ("shared", "node", "table.txt")


def main() -> int:
    """The entry point; the exit status."""
    flags = argparse.ArgumentParser(prog="python -m demo.kube", description=__doc__)
    flags.add_argument("--output", type=Path, default=ROOT / "demo-output", metavar="DIR")
    options = flags.parse_args()
    return run_demo(lambda progress: run(options.output.resolve(), progress))


def run(output: Path, progress: Progress) -> list[str]:
    """The whole demo, on the cluster that is given or on a node of its own; what was wrong.

    Raises `DemoFailed` when it cannot be played to its end.
    """
    make_room(output)
    with border(), choose_cluster(output / "node") as node:
        progress.say("a cluster is made ready, with the images and HDFS on it; the first time, they are made")
        node.start()
        furnish(node, TAG)
        return play(node, output, progress)


def make_room(output: Path) -> None:
    """Remove what an earlier demo left, also one that was killed. Raises `DemoFailed` when one still runs there."""
    with border():
        registry.vacate(output)  # while its node is mounted there, nothing may be deleted
    clear(output, _OUTPUT)


def play(node: KubernetesCluster, output: Path, progress: Progress) -> list[str]:
    """The same in a cluster that is furnished."""
    shared = node.visible(output / "shared")
    flights = all_flights()
    progress.say(f"{flights.num_rows:,} flights as input, in {_FILES} files")
    write_files(flights, shared / "input", _FILES)
    written, events_file = shared / "output", shared / "output" / "events.jsonl"
    written.mkdir()
    events_file.touch()
    for path in (written, events_file):
        os.chown(path, USER, USER)  # the drivers' Pods write here
    log = EventLog(events_file)
    cluster = Cluster(node)
    progress.say("helm install milepost: three replicas, pointers in ConfigMaps, states on HDFS")
    progress.say(f"  every replica is ready after {cluster.install():.1f} s")
    events = _break_and_wait(cluster, shared, log, progress)
    return _report(events, _compare(cluster, shared, progress), output, progress)


def _break_and_wait(cluster: Cluster, shared: Path, log: EventLog, progress: Progress) -> list[Event]:
    story = _Story(log, progress)
    cluster.apply(driver_job(shared, cluster.services, _HALT_IN, _TTL))
    progress.begin("two drivers, one of which leads")
    first = story.wait_for(lambda event: event.what == HALTED).driver
    story.wait_for(lambda event: event.what == STANDBY and event.driver != first)
    cluster.delete(first)
    log.note(first, KILLED)
    second = story.wait_for(lambda event: event.what == LEADS and event.driver != first).driver
    story.wait_for(lambda event: event.what == PUBLISHED and event.driver == second)
    log.note("the service's leader", SERVICE_KILLED, detail=cluster.delete_leader())
    story.wait_for(lambda event: event.what == FINISHED and event.driver == second)
    return log.events()


class _Story:
    def __init__(self, log: EventLog, progress: Progress) -> None:
        self._log = log
        self._progress = progress

    def wait_for(self, fits: Callable[[Event], bool]) -> Event:
        """The first event that fits. Raises `DemoFailed`."""
        end = time.monotonic() + _DEADLINE_SECONDS
        while time.monotonic() < end:
            events = self._log.events()
            self._progress.show(events)
            found = next(filter(fits, events), None)
            if found is not None:
                return found
            time.sleep(0.1)
        raise DemoFailed(f"the story does not go on for {_DEADLINE_SECONDS:g} s")


def _compare(cluster: Cluster, shared: Path, progress: Progress) -> Comparison:
    progress.begin("comparing what was published with the input")
    with border():
        reader = cluster.pod("reader").make(reader_spec(shared, cluster.services, "result.json"))
        if reader.wait_end(_DEADLINE_SECONDS) != "Succeeded":
            raise reader.failed("failed")
    (compared,) = json.loads((shared / "output" / "result.json").read_text())
    return Comparison(**compared)


def _report(events: list[Event], compared: Comparison, output: Path, progress: Progress) -> list[str]:
    (taken,) = take_overs(events)
    lines = [
        f"rows in                                              {compared.rows_in:>9,}",
        f"rows out                                             {compared.rows_out:>9,}",
        f"duplicates                                           {compared.duplicates:>9,}",
        f"losses                                               {compared.losses:>9,}",
        f"seconds from the Pod's deletion to the next leader   {taken.leads_after:>9.1f}",
        f"seconds from there to its first published batch      {taken.publishes_after:>9.1f}",
        f"the whole demo took, in seconds                      {progress.seconds():>9.0f}",
    ]
    text = "\n".join(lines)
    (output / "table.txt").write_text(f"{text}\n")
    progress.say(f"done\n\n{text}\n")
    wrong = []
    if not compared.exact:
        wrong.append("what came out is not what went in")
    if len({event.epoch for event in events if event.what == LEADS}) < 2:
        wrong.append(f"two drivers of {JOB} should have led under epochs of their own")
    return wrong


if __name__ == "__main__":
    sys.exit(main())

"""``python -m demo.cluster``: a jar that knows nothing of Milepost loses its drivers, on a cluster with no common disk.

One driver is paused and woken, the next one is killed, and the leader of the service with them. The same comes without
Milepost, and a table of both. Exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from demo.cli import clear, run_demo
from demo.cluster.drivers import Driver, Job, submitted, supervised
from demo.cluster.feed import Feed
from demo.cluster.jar import make_jar
from demo.cluster.output import look
from demo.cluster.parts import Parts, parts
from demo.cluster.story import Stage, play
from demo.cluster.table import Run, complaints, table
from demo.processes import ROOT, Processes, border
from demo.report.progress import Progress
from demo.spark import java
from demo.spark.flights import all_flights
from demo.timeline import EventLog
from testbed.maven import jars

_TTL = 15.0  # a driver's session must outlast a fail-over of the service, which takes about five seconds
_PER_BATCH = 12_000
_OUTPUT = ("service", "kafka", "cluster", "with-milepost", "plain-spark", "jar", "logs", "scratch", "table.txt")

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # So many batches back Spark keeps its own account, which is 100 by default: the demo would take that much longer.
    "spark.sql.streaming.minBatchesToRetain": "2",
}
_ON_THE_CLUSTER = {
    "spark.cores.max": "2",  # of four, so that there is room for a successor beside a driver that stands still
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.locality.wait": "0s",
}


def main() -> int:
    """The entry point; the exit status."""
    flags = argparse.ArgumentParser(prog="python -m demo.cluster", description=__doc__)
    flags.add_argument("--output", type=Path, default=ROOT / "demo-output", metavar="DIR")
    options = flags.parse_args()
    return run_demo(lambda progress: run(options.output.resolve(), progress))


def run(output: Path, progress: Progress) -> list[str]:
    """The whole demo; what was wrong. Raises `DemoFailed` when it cannot be played to its end."""
    clear(output, _OUTPUT)
    with border(), Processes(output) as processes:
        progress.say("the job is compiled against Spark, and nothing else")
        jar = make_jar(output / "jar")
        archive = java.archive_path(ROOT / ".cache")
        if not archive.exists():
            progress.say("for the first time on this machine: an archive of Spark's classes, for quick starts")
            java.make_archive(processes, archive)
        flights, connector = all_flights(), sorted(jars("spark-kafka").glob("*.jar"))
        progress.say("three replicas, three ZooKeepers, S3, Kafka, and Spark with two workers are starting")
        with parts(output) as started:
            options = java.options(archive, processes.scratch)

            def job(written: Path) -> Job:
                written.mkdir(parents=True)
                arguments = [started.kafka.address, written.parent.name, str(written), str(_PER_BATCH)]
                return Job(jar, connector, arguments, _SETTINGS, options)

            ours = _with_milepost(output / "with-milepost", job, started, archive, processes, flights, progress)
            theirs = _plain(output / "plain-spark", job, started, processes, flights, progress)
    text = f"{table(ours, theirs)}\n\nthe whole demo took {progress.seconds():.0f} seconds"
    (output / "table.txt").write_text(f"{text}\n")
    progress.say(f"done\n\n{text}\n")
    return complaints(ours, theirs)


def _with_milepost(
    directory: Path,
    job: Callable[[Path], Job],
    started: Parts,
    archive: Path,
    processes: Processes,
    flights: pa.Table,
    progress: Progress,
) -> Run:
    progress.begin("with Milepost, on the cluster")
    progress.say("two drivers are started: milepost run --standby … -- spark-submit … flights.jar")
    executors = {"spark.executor.extraJavaOptions": f"{java.QUICK} -XX:SharedArchiveFile={archive}"}
    command = submitted(job(directory / "output"), started.cluster.master.url, _ON_THE_CLUSTER | executors)

    def of(name: str) -> Sequence[str]:
        return supervised(started.service.urls, "flights", _TTL, name, command)

    return _play(directory, of, started, processes, flights, progress, started.service.kill_leader)


def _plain(
    directory: Path,
    job: Callable[[Path], Job],
    started: Parts,
    processes: Processes,
    flights: pa.Table,
    progress: Progress,
) -> Run:
    progress.begin("plain Spark, in one JVM: its checkpoint needs a directory that all tasks see")
    location = {"spark.sql.streaming.checkpointLocation": f"{directory}/checkpoints"}
    command = submitted(job(directory / "output"), "local[2]", location)
    return _play(directory, lambda _name: command, started, processes, flights, progress, None)


def _play(
    directory: Path,
    command: Callable[[str], Sequence[str]],
    started: Parts,
    processes: Processes,
    flights: pa.Table,
    progress: Progress,
    kill_service: Callable[[], str] | None,
) -> Run:
    log = EventLog(directory / "events.jsonl")

    def driver(name: str) -> Driver:
        return Driver(name, command(name), directory / f"{name.replace(' ', '-')}.log", processes.scratch, log)

    with ExitStack() as ends:
        drivers = driver("driver A"), driver("driver B")
        for each in drivers:
            ends.callback(each.kill)
        feed = ends.enter_context(Feed(started.kafka.address, directory.name, flights))
        stage = Stage(drivers, feed, flights.num_rows, directory / "output", log, progress, _TTL, kill_service)
        events = play(stage)
    return Run(events, look(directory / "output", flights))


if __name__ == "__main__":
    sys.exit(main())

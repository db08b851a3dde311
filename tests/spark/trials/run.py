"""One run: a job goes through its rounds, and in the end its rows and the journal are looked at."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType

from testbed.kafka import KafkaServer
from testbed.maven import jars
from testbed.spark import Standalone
from tests.spark.clusters.topics import Topics
from tests.spark.output.published import published_rows
from tests.spark.supervise.supervised import Supervised, spark_submit
from tests.spark.trials import proof
from tests.spark.trials.addresses import Address, reached
from tests.spark.trials.fleet import Fleet
from tests.spark.trials.members import Member, leading, running
from tests.spark.trials.plan import LEAD, Plan
from tests.spark.trials.queries import PROVIDERS, Row
from tests.spark.trials.reading import slowly
from tests.spark.trials.served import Watched, served
from tests.spark.trials.sources import Files, Rate, Source, Topic
from tests.spark.trials.stateful import QUERIES
from tests.spark.under_test.process import Driver
from tests.spark.under_test.settings import Setup

TTL = 15.0
JVM_TIMEOUT = 30.0
_DEADLINE_SECONDS = 240.0
_THROTTLE = 0.4
_SLOW = 10
_LOOK_SECONDS = 2.0
_SMALL = {
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # else not every batch has input of its own
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "3",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
}
_SPREAD = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.locality.wait": "0s",  # else all tasks wait for the one executor that has read the first partitions
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@dataclass(frozen=True)
class Result:
    """What came of a run that has ended well.

    ``refused`` is how often drivers and executors logged that their epoch is not the current one, stack traces that
    repeat it included; ``denied`` all answers of status 403, also those of replicas that do not lead.
    ``s3_errors`` is how many writes to S3 were made to fail.
    """

    batches: int
    rows: int
    births: int
    epochs: int
    refused: int
    denied: int
    s3_errors: int
    gaps: list[float]
    ends: dict[str, int]
    seconds: float


class Parts:
    """What runs have in common: a broker of Kafka and a cluster, started when the first run needs them."""

    def __init__(self, directory: Path, java_options: str, jar: Path) -> None:
        self.directory, self.java_options, self.jar = directory, java_options, jar
        self.hidden = directory / "hidden"
        self.hidden.mkdir(parents=True, exist_ok=True)
        self._stack = ExitStack()

    @cached_property
    def kafka(self) -> KafkaServer:
        return self._stack.enter_context(KafkaServer(self.directory / "kafka")).serve(_DEADLINE_SECONDS)

    @cached_property
    def cluster(self) -> Standalone:
        """Its workers see the data of the jobs, and neither the service's nor the drivers' own files."""
        cluster = Standalone(self.directory / "cluster", hidden=self.hidden)
        self._stack.callback(cluster.kill)
        return cluster

    def __enter__(self) -> Parts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class Run:
    """A plan that is being played. `times` tells what came when."""

    def __init__(self, plan: Plan, parts: Parts) -> None:
        self.plan, self._parts = plan, parts
        self.data = parts.directory / plan.job
        self.hidden = parts.hidden / plan.job
        self.output = self.data / "out"
        self.times: list[str] = []
        self._count = 0
        self._query = "checkpoint" if plan.way == LEAD else "checkpoint/queries/trial"

    def play(self) -> Result:
        """Go through all rounds. Raises `NotWentOn` or `proof.Violation`, and what the parts raise that fail."""
        began = time.monotonic()
        self.output.mkdir(parents=True)
        self.hidden.mkdir()
        source = self._source()
        with served(self.hidden / "service", self.plan.replicas, self.plan.seed) as service, ExitStack() as stack:
            watched = Watched(service, self.plan.job)
            stack.callback(watched.close)
            cluster = self._parts.cluster.serve(_DEADLINE_SECONDS) if self.plan.executors else None
            address = stack.enter_context(reached(self.plan.address, service.replicas, self.data / "address"))
            fleet = Fleet(
                self.plan, watched, address, source, self._query, lambda: self._member(address, source, stack), cluster
            )
            stack.callback(fleet.end)
            self.times = fleet.times
            for fault in self.plan.rounds:
                fleet.run(fault)
            fleet.finish(lambda: self._used_up(watched, fleet, source))
            fleet.end()
            service.mend()
            denied = watched.denied()
            rows, births = self._check(watched, source)
            return Result(
                batches=len(rows),
                rows=sum(map(len, rows.values())),
                births=births,
                epochs=len(service.journal.grants(self.plan.job)),
                refused=self._refused(),
                denied=denied,
                s3_errors=service.s3_errors,
                gaps=[round(gap, 1) for gap in fleet.gaps],
                ends=dict(fleet.ends),
                seconds=round(time.monotonic() - began),
            )

    def _used_up(self, watched: Watched, fleet: Fleet, source: Source) -> bool:
        time.sleep(_LOOK_SECONDS)
        offsets = proof.logged(watched.service.journal, self.plan.job, self._query)
        return all(source.used_up(end) for end in offsets.get(fleet.committed(), [None]))

    def _check(self, watched: Watched, source: Source) -> tuple[dict[int, list[Row]], int]:
        """The rows that the job has published, once they and the journal are as they must be."""
        journal = watched.service.journal
        births = proof.check_journal(journal, self.plan.job)
        if self.plan.way == LEAD:
            published = published_rows(watched.service.leader().url, self.plan.job, self.output)
            rows = {batch: [found] for batch, found in published.items()}
            last = max(rows)
        else:
            rows = proof.written_by_jar(self.output)
            committed = watched.committed(self._query)
            assert committed is not None, "the service is away"
            last = committed
        offsets = proof.logged(journal, self.plan.job, self._query)
        wanted = proof.expected(QUERIES[self.plan.kind], source, offsets, last)
        proof.check_rows(rows, wanted)
        return wanted, births

    def _refused(self) -> int:
        told = re.compile(rb"epoch \d+ was given, the current one of '%s' is " % self.plan.job.encode())
        logs = [*self.hidden.glob("*.log"), *self._parts.directory.glob("cluster/*/work/app-*/*/stderr")]
        return sum(len(told.findall(log.read_bytes())) for log in logs)

    def _source(self) -> Source:
        if self.plan.source == "rate":
            return Rate()
        if self.plan.source == "files":
            return Files(self.data)
        return Topic(Topics(self._parts.kafka.address), self.plan.job)

    def _settings(self, address: Address) -> Mapping[str, str]:
        spread = {"spark.master": self._parts.cluster.master.url, **_SPREAD} if self.plan.executors else {}
        if self.plan.executors:
            spread |= {"spark.executor.extraJavaOptions": self._java_options(address)}
        connector = sorted(jars("spark-kafka").glob("*.jar")) if self.plan.source == "kafka" else []
        jars_of_it = {"spark.jars": ",".join(map(str, connector))} if connector else {}
        return {**_SMALL, **spread, **address.settings, **jars_of_it}

    def _java_options(self, address: Address) -> str:
        return self._parts.java_options + address.java_options

    def _member(self, address: Address, source: Source, stack: ExitStack) -> Member:
        """One more driver."""
        self._count += 1
        mark = self.hidden / f"driver-{self._count}"
        if self.plan.way != LEAD:
            return self._supervisor(address, source, mark, stack)
        setup = Setup(
            url="",
            urls=tuple(address.urls),
            store=self.plan.job,
            kind=self.plan.kind,
            provider=self.plan.provider,
            input="",
            reading=source.reading,
            output=str(self.output),
            scratch=str(mark),
            events=str(mark.with_suffix(".events")),
            java_options=self._java_options(address),
            throttle=_THROTTLE,
            slow=_SLOW,
            ttl=TTL,
            jvm_timeout=JVM_TIMEOUT,
            spark=dict(self._settings(address)),
            available_now=False,
        )
        return leading(Driver(setup), stack)

    def _supervisor(self, address: Address, source: Source, mark: Path, stack: ExitStack) -> Member:
        applications = mark.with_suffix(".applications")
        setup = mark.with_suffix(".json")
        told = {
            "kind": self.plan.kind,
            "mode": QUERIES[self.plan.kind].mode,
            "reading": asdict(source.reading),
            "slowly": slowly("w", _SLOW),
            "output": str(self.output),
            "pause": int(1000 * _THROTTLE),
            "applications": str(applications),
        }
        setup.write_text(json.dumps(told))
        settings = {**PROVIDERS[self.plan.provider], **self._settings(address), "spark.local.dir": str(mark)}
        command = spark_submit(
            self._java_options(address), "--class", "Trial", str(self._parts.jar), str(setup), settings=settings
        )
        options = ["--standby", "--ttl", str(TTL), "--grace", "5", "--restarts", "50"]
        supervised = Supervised(",".join(address.urls), self.plan.job, mark.with_suffix(".log"), options, command)
        return running(mark.name, supervised, applications, stack)

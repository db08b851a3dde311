"""``python -m demo``: the scenario with Milepost and without, a table, a plot. Exits with 1 if anything is wrong."""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from demo.audit import Audit
from demo.cli import clear, run_demo
from demo.processes import ROOT, Processes
from demo.replicated import ReplicatedService
from demo.report.plot import draw
from demo.report.progress import Progress
from demo.report.table import Run, complaints, table
from demo.scenario import Scenario, Script
from demo.service import EmbeddedService
from demo.spark import java
from demo.spark.flights import all_flights, write_files
from demo.spark.settings import DriverSettings

_FILES = 10
_PAUSE_IN, _KILL_IN = 2, 6
_TTL = 5.0
_REPLICATED_TTL = 15.0  # a driver's session must outlast a fail-over of the service, which takes about five seconds
_OUTPUT = ("input", "service", "with-milepost", "plain-spark", "audit", "logs", "scratch", "timeline.png", "table.txt")


def main() -> int:
    """The entry point; the exit status."""
    options = _arguments().parse_args()
    ttl = options.ttl or (_REPLICATED_TTL if options.replicated else _TTL)
    return run_demo(
        lambda progress: run(options.output.resolve(), options.service, ttl, progress, replicated=options.replicated)
    )


def run(output: Path, services: list[str], ttl: float, progress: Progress, *, replicated: bool = False) -> list[str]:
    """The whole demo; what was wrong. Raises `DemoFailed` when it cannot be played to its end.

    ``services``: the URLs of a Milepost that runs already; none: one is started, ``replicated`` or embedded.
    """
    clear(output, _OUTPUT)
    flights = all_flights()
    progress.say(f"{flights.num_rows:,} flights as input, in {_FILES} files")
    write_files(flights, output / "input", _FILES)
    with Processes(output) as processes, ExitStack() as ends:
        service: EmbeddedService | ReplicatedService | None = None
        if replicated:
            service = ReplicatedService(output / "service")
            progress.say("three replicas, three ZooKeepers and S3 are starting")
        elif not services:
            service = EmbeddedService(processes, output / "service")
        if service is not None:
            ends.callback(service.stop)
        archive = java.archive_path(ROOT / ".cache")
        if not archive.exists():
            progress.say("for the first time on this machine: an archive of Spark's classes, for quick starts")
            java.make_archive(processes, archive)
        if service is not None:
            service.wait_until_it_leads()
            services = service.urls
        options = java.options(archive, processes.scratch)
        runs = _play(processes, output, services, ttl, options, progress, _killing(service))
    _report(runs, output, progress)
    return complaints(*runs)


def _play(
    processes: Processes,
    output: Path,
    services: list[str],
    ttl: float,
    java_options: str,
    progress: Progress,
    kill_service: Callable[[], str] | None,
) -> tuple[Run, Run]:
    """Both runs and their audit. What comes next is started while something is waited for."""
    job = f"flights-{uuid.uuid4().hex[:8]}"
    script = Script(_PAUSE_IN, _KILL_IN, ttl)

    def settings(kind: str) -> DriverSettings:
        directory = output / kind
        directory.mkdir()
        return DriverSettings(
            name="",
            input=str(output / "input"),
            output=str(directory / "output"),
            events=str(directory / "events.jsonl"),
            begin="",
            java_options=java_options,
            services=services,
            job=job,
            ttl=ttl,
        )

    ours, theirs = settings("with-milepost"), settings("plain-spark")
    theirs = replace(theirs, checkpoints=str(output / "plain-spark" / "checkpoints"))
    with_milepost = Scenario(processes, "demo.spark.driver", ours, script, progress, told=False)
    plain = Scenario(processes, "demo.spark.plain_driver", theirs, script, progress, told=True)
    audit = Audit(processes, output / "audit", ours, theirs.output)

    progress.begin("with Milepost")
    events = with_milepost.play(plain.prepare, kill_service)
    progress.begin("plain Spark, the same drivers broken in the same places")
    plain_events = plain.play(audit.prepare)
    progress.begin("comparing what was published with the input")
    compared, plain_compared = audit.result()
    return Run(events, compared), Run(plain_events, plain_compared)


def _killing(service: EmbeddedService | ReplicatedService | None) -> Callable[[], str] | None:
    """How the service's leader is killed, where another replica can take over."""
    return service.kill_leader if isinstance(service, ReplicatedService) else None


def _report(runs: tuple[Run, Run], output: Path, progress: Progress) -> None:
    draw([("with Milepost", runs[0].events), ("plain Spark", runs[1].events)], output / "timeline.png")
    text = f"{table(*runs)}\n\nthe whole demo took {progress.seconds():.0f} seconds"
    (output / "table.txt").write_text(f"{text}\n")
    progress.say(f"done; the plot is {output / 'timeline.png'}\n\n{text}\n")


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--service", action="append", default=[], metavar="URL", help="a Milepost that runs already; may be repeated"
    )
    parser.add_argument(
        "--replicated",
        action="store_true",
        help="three replicas over ZooKeeper and S3, whose leader is killed as well as the driver",
    )
    parser.add_argument("--output", type=Path, default=ROOT / "demo-output", metavar="DIR")
    parser.add_argument(
        "--ttl",
        type=float,
        metavar="SECONDS",
        help=f"length of the drivers' sessions: {_TTL:g}, or {_REPLICATED_TTL:g} with --replicated",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

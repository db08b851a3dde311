"""The metrics of single jobs, in the text format of Prometheus.

The label of a job is ``store``, the name of its store: Prometheus gives the labels ``job`` and ``instance`` to what it
collects from, and would rename labels of these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from milepost.errors import Problem
from milepost_server.operations.jobs import JobOperations, JobSummary

MOST_JOBS: Final = 1000
"""The most jobs that have metrics of their own, the first ones by name. So the answer has a bounded size, and the same
jobs are in every answer.
"""

_OF_ALL: Final = {
    "milepost_jobs": "Stores with an epoch or a snapshot of their files",
    "milepost_jobs_left_out": "Jobs without series in this answer: beyond the limit, or not shown to this client",
}
_OF_EACH: Final = {
    "milepost_job_led": "1 while a driver holds the epoch of the job",
    "milepost_job_lost": "1 if the last driver's session ended before the driver resigned, and no driver leads since",
    "milepost_job_epoch": "Number of the newest epoch",
    "milepost_job_standbys": "Drivers that wait for the epoch",
    "milepost_job_last_batch": "Number of the last batch that Spark committed",
    "milepost_job_last_batch_timestamp_seconds": "Unix time at which that batch was committed",
    "milepost_job_damaged_records": "Records of the job that cannot be read",
}


class JobMetrics:
    """Writes the metrics of jobs. Only the leader has numbers, since it alone knows the sessions and the standbys."""

    def __init__(self, jobs: JobOperations) -> None:
        self._jobs = jobs

    async def text(self, *, named: bool) -> bytes:
        """Return the metrics of all jobs together and, if ``named``, of each of the first `MOST_JOBS` jobs by name.

        Other requests are served in between. On a replica that does not lead, the families have no numbers.
        """
        lines: dict[str, list[str]] = {name: [] for name in (*_OF_ALL, *_OF_EACH)}
        shown = 0

        def add(job: JobSummary) -> None:
            nonlocal shown
            shown += 1
            label = job.job.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
            for name, value in _numbers(job).items():
                lines[name].append(f'{name}{{store="{label}"}} {value!r}\n')

        try:
            if named:
                await self._jobs.each(MOST_JOBS, add)
            count = self._jobs.count()
        except Problem:  # the replica does not lead, or does not lead any more
            lines = {name: [] for name in lines}
        else:
            lines["milepost_jobs"].append(f"milepost_jobs {float(count)!r}\n")
            lines["milepost_jobs_left_out"].append(f"milepost_jobs_left_out {float(max(0, count - shown))!r}\n")
        return "".join(
            f"# HELP {name} {text}\n# TYPE {name} gauge\n{''.join(lines[name])}"
            for name, text in (_OF_ALL | _OF_EACH).items()
        ).encode()


def _numbers(job: JobSummary) -> Mapping[str, float]:
    """Return the metrics of a job by name. Numbers that are unknown are missing."""
    found = {"milepost_job_standbys": job.standbys, "milepost_job_damaged_records": job.damaged}
    numbers = {name: float(value) for name, value in found.items()}
    if job.state != "damaged":
        numbers["milepost_job_led"] = float(job.state in ("led", "stopping"))
        numbers["milepost_job_lost"] = float(job.state == "lost")
        numbers["milepost_job_epoch"] = float(job.epoch["epoch"])
    if job.batch is not None:
        snapshot, taken = job.batch
        numbers["milepost_job_last_batch"] = float(snapshot.batch)
        if taken is not None:
            numbers["milepost_job_last_batch_timestamp_seconds"] = datetime.fromisoformat(taken).timestamp()
    return numbers

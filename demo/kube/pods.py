"""What `demo.kube` lets run in the cluster: a Job of two drivers, and a reader when they are done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demo.spark.java import QUICK
from demo.spark.settings import BEFORE_PUBLISHING, DriverSettings, Halt, ReaderSettings
from testbed.cluster.pods import directory_volume
from testbed.images.contents import SPARK

JOB = "flights"
DATA = "/data"
"""Where a container sees the demo's directory, which stands for what all nodes of a cluster share."""

_SCRATCH = "/tmp"
_JAVA = f"{QUICK} -Djava.io.tmpdir={_SCRATCH}"


def driver_job(directory: Path, services: Sequence[str], halt_in: int, ttl: float) -> dict[str, Any]:
    """Two Pods, one of which leads at a time. One that is deleted is replaced; the Job is over when both are done.

    Each is called what its Pod is called. The first to come to batch ``halt_in`` stands still there, half-way through.
    """
    settings = DriverSettings(
        name="$(POD_NAME)",
        input=f"{DATA}/input",
        output=f"{DATA}/output/published",
        events=f"{DATA}/output/events.jsonl",
        begin=f"{DATA}/input",
        java_options=_JAVA,
        halts=(Halt(BEFORE_PUBLISHING, halt_in),),
        services=services,
        job=JOB,
        ttl=ttl,
    )
    spec = _spec(directory, "demo.spark.driver", settings.to_json())
    template = {"metadata": {"labels": {"app": JOB}}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": JOB},
        "spec": {"completions": 2, "parallelism": 2, "backoffLimit": 6, "template": template},
    }


def reader_spec(directory: Path, services: Sequence[str], result: str) -> dict[str, Any]:
    """The Pod of a reader that writes its comparison to the file ``result`` in the demo's output."""
    settings = ReaderSettings(
        input=f"{DATA}/input",
        services=services,
        job=JOB,
        plain_output=None,
        java_options=_JAVA,
        begin=f"{DATA}/input",
        result=f"{DATA}/output/{result}",
    )
    return _spec(directory, "demo.spark.reader", settings.to_json())


def _spec(directory: Path, module: str, argument: str) -> dict[str, Any]:
    name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [
            {
                "name": "spark",
                "image": SPARK,
                "imagePullPolicy": "Never",
                "command": ["python3", "-m", module],
                "args": [argument],
                "env": [name, {"name": "SPARK_LOCAL_IP", "value": "127.0.0.1"}],
                "volumeMounts": [{"name": "data", "mountPath": DATA}],
            }
        ],
        "volumes": [directory_volume("data", directory)],
    }

"""The example of deploy/spark in a cluster, as a user would put it there, with the program of these tests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.pods import Pod
from testbed.cluster.release import Release
from testbed.images.contents import SPARK
from testbed.process import ProcessFailed
from testbed.server import ROOT
from tests.system.node.pods import job

EXAMPLE = ROOT / "deploy" / "spark" / "flights.yaml"
_ALL = "app=flights"
_DRIVERS = f"{_ALL},role=driver"
_EXECUTORS = f"{_ALL},spark-role=executor"
_QUICK = """
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.codegen.wholeStage false
spark.scheduler.maxRegisteredResourcesWaitingTime 300s
"""
"""For JVMs that live for a minute, and tests that look at both executors."""
_DEADLINE_SECONDS = 600.0
_POLL_SECONDS = 1.0

Event = dict[str, Any]


class Application:
    """A job that is named like its ``namespace``, and which a ``release`` elsewhere serves."""

    def __init__(self, node: KubernetesCluster, namespace: str, release: Release) -> None:
        self.name = namespace
        self._node = node
        self._namespace = namespace
        self._release = release
        self._logs: dict[str, str] = {}

    def start(self, **variables: object) -> None:
        """Let the drivers run, with these variables beside those of the example."""
        self._node.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "milepost", "namespace": self._namespace},
                "stringData": {"token": self._release.token},
            },
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "program", "namespace": self._namespace},
                "data": {"flights.py": Path(job.__file__).read_text()},
            },
            *self._objects({"JOB": self.name, **{name: str(value) for name, value in variables.items()}}),
        )

    def end(self) -> None:
        """Delete the Deployment, and wait until no Pod is left: drivers that end in order end their executors."""
        waiting = (f"--namespace={self._namespace}", "--wait=false")
        self._node.kubectl("delete", "deployment/flights", *waiting)

        def gone() -> bool:
            self._read_all()
            return not self._pods(_ALL)

        self._wait(gone, "there are Pods still")

    # -- what it told ------------------------------------------------------------------------------------------------

    def events(self) -> Iterator[tuple[str, Event]]:
        """Everything that was told so far, with the name of the Pod that did."""
        self._read_all()
        for key, text in self._logs.items():
            for line in text.splitlines():
                if line.startswith('{"event"'):
                    yield key.partition(" ")[0], json.loads(line)

    def wait_for(self, fits: Callable[[str, Event], bool], what: str) -> tuple[str, Event]:
        """The first event that fits, and the Pod that told it. Raises `ProcessFailed` with all logs."""
        found: list[tuple[str, Event]] = []

        def told() -> bool:
            found[:] = [(pod, event) for pod, event in self.events() if fits(pod, event)]
            return bool(found)

        self._wait(told, f"nobody told: {what}")
        return found[0]

    def totals(self, last: int) -> dict[str, tuple[int, int]]:
        """Of each key the sum and the number of its rows, as the batches up to ``last`` told them.

        One that was told twice must have told the same. Raises `AssertionError` where one is missing.
        """
        batches: dict[int, list[Any]] = {}
        for _, event in self.events():
            if event["event"] == "batch" and event["batch"] <= last:
                assert batches.setdefault(event["batch"], event["rows"]) == event["rows"], event
        assert sorted(batches) == list(range(last + 1))
        sums: dict[str, tuple[int, int]] = {}
        for rows in batches.values():
            for key, value in rows:
                total, count = sums.get(key, (0, 0))
                sums[key] = (total + value, count + 1)
        return sums

    # -- its Pods ----------------------------------------------------------------------------------------------------

    def pod(self, name: str) -> Pod:
        """One of them."""
        return Pod(self._node, self._namespace, name)

    def executors(self, driver: str) -> list[str]:
        """The names of a driver's executors: it owns them."""
        return [
            pod["metadata"]["name"]
            for pod in self._pods(_EXECUTORS)
            if [owner["name"] for owner in pod["metadata"].get("ownerReferences", [])] == [driver]
        ]

    def volumes(self, name: str) -> set[str]:
        """The kinds of volumes that a Pod has."""
        spec = self._node.get("pod", name, f"--namespace={self._namespace}")["spec"]
        return {kind for volume in spec.get("volumes", []) for kind in volume if kind != "name"}

    def wait_for_no_executors(self, driver: str) -> None:
        """Wait until the executors of a driver are gone, which Kubernetes does once its Pod is."""
        self._wait(lambda: not self.executors(driver), f"executors of {driver} outlive it")

    def refusals(self) -> list[str]:
        """What drivers have printed of rights that they did not have."""
        lines = (line for log in self._logs.values() for line in log.splitlines())
        return [line for line in lines if "forbidden" in line.lower() or "is not allowed" in line]

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _objects(self, variables: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        text = EXAMPLE.read_text().replace("REGISTRY/flights:1", SPARK).replace("IfNotPresent", "Never")
        text = text.replace("http://milepost-leader.milepost:7070", self._release.leader_url)
        for each in yaml.safe_load_all(text):
            each["metadata"]["namespace"] = self._namespace
            if each["kind"] == "ConfigMap":
                each["data"]["spark-defaults.conf"] += _QUICK
            if each["kind"] == "Deployment":
                spec = each["spec"]["template"]["spec"]
                (container,) = spec["containers"]
                container["env"] += [{"name": name, "value": value} for name, value in variables.items()]
                container["volumeMounts"].append({"name": "program", "mountPath": "/opt/jobs", "readOnly": True})
                spec["volumes"].append({"name": "program", "configMap": {"name": "program"}})
            yield each

    def _read_all(self) -> None:
        for pod in self._pods(_DRIVERS):
            for status in pod["status"].get("containerStatuses", []):
                self._read(pod["metadata"]["name"], status["restartCount"])

    def _read(self, pod: str, restarted: int) -> None:
        """Keep the logs of a Pod, the one of the run before as well."""
        runs = [(restarted, ())] + ([(restarted - 1, ("--previous",))] if restarted else [])
        for run, options in runs:
            key = f"{pod} run {run}"
            try:
                text = self._node.kubectl("logs", pod, f"--namespace={self._namespace}", *options)
            except ProcessFailed:  # it has not begun yet, or is gone
                continue
            if len(text) > len(self._logs.get(key, "")):
                self._logs[key] = text

    def _pods(self, labels: str) -> list[Any]:
        found: list[Any] = self._node.get("pods", f"--namespace={self._namespace}", f"--selector={labels}")["items"]
        return found

    def _wait(self, holds: Callable[[], bool], complaint: str) -> None:
        end = time.monotonic() + _DEADLINE_SECONDS
        while not holds():
            if time.monotonic() > end:
                logs = "\n".join(f"--- {key} ---\n{text[-4000:]}" for key, text in self._logs.items())
                raise ProcessFailed(f"{complaint} after {_DEADLINE_SECONDS:g} s\n{logs}")
            time.sleep(_POLL_SECONDS)

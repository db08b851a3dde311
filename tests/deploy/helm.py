"""The chart as the real Helm renders it, without a cluster to ask."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
"""A file for each pair of pointers and blobs, and some for what lies beside them."""
PAIRS = [CHART / "ci" / f"{pair}-values.yaml" for pair in
         ("kubernetes-s3", "kubernetes-hdfs", "zookeeper-s3", "zookeeper-hdfs")]  # fmt: skip
NAMESPACE = "data"
RELEASE = "milepost"

Manifest = dict[str, Any]


class Refused(Exception):
    """Helm ended with an error; the message is what it printed."""


@dataclass(frozen=True)
class Rendered:
    """The objects that a release would make."""

    manifests: Sequence[Manifest]

    def of(self, kind: str) -> Sequence[Manifest]:
        """All of a kind."""
        return [manifest for manifest in self.manifests if manifest["kind"] == kind]

    def one(self, kind: str, suffix: str = "") -> Manifest:
        """The one of a kind whose name ends like this."""
        (found,) = [each for each in self.of(kind) if each["metadata"]["name"].endswith(suffix)]
        return found

    def cell(self, name: str) -> Rendered:
        """What one cell has of it."""
        return Rendered([each for each in self.manifests if each["metadata"]["labels"].get("milepost/cell") == name])

    @property
    def kinds(self) -> set[str]:
        """The kinds there are."""
        return {manifest["kind"] for manifest in self.manifests}

    @property
    def pod(self) -> Manifest:
        """A replica's Pod: metadata and spec."""
        template: Manifest = self.one("Deployment")["spec"]["template"]
        return template

    @property
    def container(self) -> Manifest:
        """A replica's container of Milepost; there may be sidecars."""
        (container,) = [each for each in self.pod["spec"]["containers"] if each["name"] == "milepost"]
        found: Manifest = container
        return found

    @property
    def pods(self) -> Sequence[Manifest]:
        """Each kind of Pod that a release ever runs."""
        return [self.pod, *self.of("Pod")]

    def environment(self, **fields: str) -> dict[str, str]:
        """What a replica is started with, the Pod's ``fields`` put in as Kubernetes does."""
        known = dict(fields)
        for entry in self.container["env"]:
            value = entry.get("value")
            if value is not None:
                for name in list(known):
                    value = value.replace(f"$({name})", known[name])
                known[entry["name"]] = value
        return known


class Helm:
    """The program, with a home of its own, away from the settings and clusters of the user who runs the tests."""

    def __init__(self, program: str, home: Path, kubeconfig: Path | None = None) -> None:
        self._program = program
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        homes = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        nowhere = home / "no-cluster.conf"
        self._environment = {**kept, **homes, "HOME": str(home), "KUBECONFIG": str(kubeconfig or nowhere)}
        self._printed: dict[Sequence[str], str] = {}

    def run(self, *arguments: str | Path) -> str:
        """What it prints. Raises `Refused`."""
        ended = subprocess.run(
            [self._program, *map(str, arguments)],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if ended.returncode:
            raise Refused(ended.stdout + ended.stderr)
        return ended.stdout

    def render(
        self,
        values: Path | None = None,
        settings: Mapping[str, object] | None = None,
        *,
        release: str = RELEASE,
        namespace: str = NAMESPACE,
    ) -> Rendered:
        """The objects for a file of values, and ``settings`` by their paths above it. Raises `Refused`."""
        arguments = (release, str(CHART), "--namespace", namespace, *chosen(values, settings))
        if arguments not in self._printed:
            self._printed[arguments] = self.run("template", *arguments)
        return Rendered([each for each in yaml.load_all(self._printed[arguments], yaml.CSafeLoader) if each])


def chosen(values: Path | None, settings: Mapping[str, object] | None = None) -> list[str]:
    """Flags of Helm."""
    flags = [] if values is None else ["--values", str(values)]
    for path, value in (settings or {}).items():
        flags += ["--set-json", f"{path}={json.dumps(value)}"]
    return flags


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether a selector of labels takes these in."""
    return selector.items() <= labels.items()

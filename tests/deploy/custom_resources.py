"""The custom resources the chart may make, as their own projects' releases define them, from the Go module proxy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tests.deploy.helm import Manifest

_DEFINITIONS: Mapping[str, Sequence[str]] = {
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": [
        f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
        for kind in ("servicemonitors", "podmonitors", "prometheusrules")
    ],
    "github.com/cert-manager/cert-manager@v1.18.2": ["deploy/crds/crd-certificates.yaml"],
    "sigs.k8s.io/gateway-api@v1.4.0": [
        f"config/crd/standard/gateway.networking.k8s.io_{kind}.yaml" for kind in ("httproutes", "backendtlspolicies")
    ],
}


def definitions(directory: Path) -> Sequence[Manifest]:
    """The definitions of the kinds that the chart may make. ``directory`` is one to work in."""
    found: list[Manifest] = []
    for module, files in _DEFINITIONS.items():
        fetched = subprocess.run(
            ["go", "mod", "download", "-json", module],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert fetched.returncode == 0, fetched.stdout + fetched.stderr
        root = Path(json.loads(fetched.stdout)["Dir"])
        found += [_definition(root / file) for file in files]
    return found


def _definition(file: Path) -> Manifest:
    """The definition in a file, without its labels: in cert-manager's these are for the templates of its own chart."""
    definition: Manifest = yaml.safe_load(file.read_text())
    definition["metadata"].pop("labels", None)
    return definition

"""The Prometheus Operator's custom resources as its own release defines them, from the Go module proxy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.deploy.helm import Manifest

_MODULE = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
_KINDS = ("servicemonitors", "prometheusrules")


def definitions(directory: Path) -> Sequence[Manifest]:
    """The definitions of the kinds that the chart may make. ``directory`` is one to work in."""
    fetched = subprocess.run(
        ["go", "mod", "download", "-json", _MODULE],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert fetched.returncode == 0, fetched.stdout + fetched.stderr
    module = Path(json.loads(fetched.stdout)["Dir"])
    files = module / "example" / "prometheus-operator-crd"
    return [yaml.safe_load((files / f"monitoring.coreos.com_{kind}.yaml").read_text()) for kind in _KINDS]

"""The chart is one that Helm finds no fault with, and it speaks of this version of the project."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomllib
import yaml

from tests.deploy.helm import CHART, ROOT, Helm, chosen

pytestmark = pytest.mark.kubernetes


def test_no_fault_is_found_with_any_values(helm: Helm, values: Path) -> None:
    printed = helm.run("lint", "--strict", CHART, *chosen(values))
    assert "1 chart(s) linted, 0 chart(s) failed" in printed
    assert "[WARNING]" not in printed


def test_no_fault_is_found_with_the_defaults(helm: Helm) -> None:
    assert "[ERROR]" not in helm.run("lint", "--strict", CHART)


def test_it_has_the_version_of_the_server() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (project["version"], project["version"])


def test_it_is_packed_without_what_only_the_tests_need(helm: Helm, tmp_path: Path) -> None:
    helm.run("package", CHART, "--destination", tmp_path)
    (archive,) = tmp_path.glob("milepost-*.tgz")
    shown = helm.run("show", "all", archive)
    assert "name: milepost" in shown
    helm.run("template", "packed", archive, "--set-json", "auth.insecure=true", "--set", "blobs.s3.bucket=states")

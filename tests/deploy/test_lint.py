"""The chart is one that Helm finds no fault with, and it speaks of this version of the project."""

from __future__ import annotations

import base64
import re
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import tomllib
import yaml

from tests.deploy import chart_page
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
    with tarfile.open(archive) as packed:
        names = {Path(name).relative_to("milepost").parts[0] for name in packed.getnames()}
    assert names == {
        "Chart.yaml",
        "README.md",
        "values.yaml",
        "values.schema.json",
        "templates",
        "files",
        ".helmignore",
    }
    shown = helm.run("show", "all", archive)
    assert "name: milepost" in shown
    helm.run("template", "packed", archive, "--set-json", "auth.insecure=true", "--set", "blobs.s3.bucket=states")


def test_whoever_finds_it_in_a_catalogue_learns_what_it_is() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    for name in ("description", "home", "icon", "sources", "keywords", "maintainers", "kubeVersion"):
        assert chart[name], name
    kind, _, encoded = chart["icon"].partition("base64,")
    assert kind == "data:image/svg+xml;"
    assert ElementTree.fromstring(base64.b64decode(encoded)).tag.endswith("svg")
    annotations = chart["annotations"]
    assert annotations["artifacthub.io/license"] in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for link in yaml.safe_load(annotations["artifacthub.io/links"]):
        page = re.sub(r"^.*/blob/main/", "", link["url"])
        assert (ROOT / page).is_file(), page


def test_its_page_lists_each_value_as_values_yaml_explains_it() -> None:
    page = chart_page.PAGE.read_text(encoding="utf-8")
    assert chart_page.written(page) == page, "python -m tests.deploy.chart_page"


def test_each_value_is_explained() -> None:
    """By its own comment, or by that of the value it belongs to."""
    values = list(chart_page.values(chart_page.VALUES.read_text(encoding="utf-8")))
    assert len(values) > 120
    explained = {value.path for value in values if value.meaning}
    assert len(explained) > 80

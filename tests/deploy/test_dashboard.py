"""The dashboard is one that Grafana's sidecar finds, and asks for metrics that a server really has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.server import ROOT
from tests.deploy.helm import CHART, Helm
from tests.deploy.metrics import matched, selectors, served, unknown

pytestmark = pytest.mark.kubernetes

FULL = CHART / "ci" / "full-values.yaml"
VARIABLES = {"$__rate_interval": "5m", "$namespace": "data", "$job": "checkpoints"}


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("watched")) as text:
        yield text


def shown(helm: Helm) -> dict[str, Any]:
    """The dashboard as it stands in the ConfigMap."""
    (text,) = helm.render(FULL).one("ConfigMap", "-dashboard")["data"].values()
    dashboard: dict[str, Any] = json.loads(text)
    return dashboard


def queries(dashboard: dict[str, Any]) -> list[str]:
    """Every query of every panel, as Prometheus gets it."""
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for name, value in VARIABLES.items():
        found = [query.replace(name, value) for query in found]
    return found


def test_the_sidecar_finds_it_and_it_is_what_stands_in_the_file(helm: Helm) -> None:
    made = helm.render(FULL).one("ConfigMap", "-dashboard")
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert made["metadata"]["annotations"]["grafana_folder"] == "Data"
    assert shown(helm) == json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
    assert helm.render(FULL, {"metrics.dashboard.enabled": False}).of("ConfigMap") == []


def test_each_panel_asks_for_metrics_of_one_deployment_that_exist(helm: Helm, metrics: str) -> None:
    """Those of each cell ask for those of all deployments."""
    found = queries(shown(helm))
    for query in found:
        assert "$" not in query
        assert unknown(query, metrics) == set(), query
        of_cells = "by (job, cell)" in query
        for selector in selectors(query):
            labels = matched(selector)
            assert (labels["namespace"], labels.get("job")) == ("data", None if of_cells else "checkpoints"), query
    assert sum("by (job, cell)" in query for query in found) == 3


def test_the_page_joins_the_name_of_the_cell_as_the_dashboard_does(helm: Helm, metrics: str) -> None:
    (query,) = re.findall(r"^`(max by \(cell\).*)`", (ROOT / "docs" / "metrics.md").read_text("utf-8"), re.MULTILINE)
    assert unknown(query, metrics) == set()
    join = re.findall(r"\* on .* milepost_cell_info", query)
    assert all(join[0] in each for each in queries(shown(helm)) if "milepost_cell_info" in each)
    assert re.search(r"^milepost_cell_info\{cell=\"a\"\} 1\.0$", metrics, re.MULTILINE)


def test_each_metric_of_a_server_is_shown(helm: Helm, metrics: str) -> None:
    """A new metric that no panel shows is one that nobody finds."""
    names = {line.split()[2] for line in metrics.splitlines() if line.startswith("# TYPE ")}
    asked = {str(selector.name) for query in queries(shown(helm)) for selector in selectors(query)}
    asked = {name.removesuffix("_bucket") for name in asked}
    assert {name for name in names if not name.endswith("_created")} - asked == set()


def test_each_panel_says_what_it_is_and_has_its_place(helm: Helm) -> None:
    panels = shown(helm)["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)

"""The alerts are well-formed, and ask for metrics that a server really has."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import promql_parser
import pytest

from testbed.server import ServerProcess
from tests.deploy.helm import CHART, NAMESPACE, Helm

pytestmark = pytest.mark.kubernetes

FULL = CHART / "ci" / "full-values.yaml"
FROM_PROMETHEUS = {"up"}


@pytest.fixture
def alerts(helm: Helm) -> Sequence[dict[str, Any]]:
    (group,) = helm.render(FULL).one("PrometheusRule")["spec"]["groups"]
    rules: Sequence[dict[str, Any]] = group["rules"]
    return rules


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The metrics of a server that was asked something."""
    with ServerProcess(tmp_path_factory.mktemp("watched")) as server:
        server.start()
        for path in ("/metrics", "/metrics"):
            with urllib.request.urlopen(f"{server.url}{path}", timeout=30) as answer:
                text = answer.read().decode()
        yield text


def selectors(expression: str) -> Sequence[promql_parser.VectorSelector]:
    """Every selector in an expression. Raises ValueError if it is none."""
    found: list[promql_parser.VectorSelector] = []

    def visit(part: promql_parser.Expr) -> None:
        if isinstance(part, promql_parser.VectorSelector):
            found.append(part)

    promql_parser.walk(promql_parser.parse(expression), pre_visit=visit)
    return found


def test_each_says_what_it_means(alerts: Sequence[dict[str, Any]]) -> None:
    names = [alert["alert"] for alert in alerts]
    assert len(names) == len(set(names)) == 6
    for alert in alerts:
        assert alert["labels"]["severity"] in ("critical", "warning")
        assert alert["annotations"]["summary"]
        assert alert["annotations"]["description"]


def test_each_asks_for_metrics_of_this_release_that_exist(alerts: Sequence[dict[str, Any]], metrics: str) -> None:
    there = set(re.findall(r"^([a-z_]+)", metrics, re.MULTILINE)) | FROM_PROMETHEUS
    for alert in alerts:
        asked = selectors(alert["expr"])
        assert asked, alert["expr"]
        for selector in asked:
            assert selector.name in there, alert["expr"]
            matched = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
            assert (matched["namespace"], matched["job"]) == (NAMESPACE, "checkpoints")


def test_labels_that_are_asked_for_exist(alerts: Sequence[dict[str, Any]], metrics: str) -> None:
    for alert in alerts:
        for selector in selectors(alert["expr"]):
            names = {matcher.name for matcher in selector.matchers.matchers} - {"namespace", "job"}
            for name in names:
                assert re.search(rf"^{selector.name}{{[^}}]*\b{name}=", metrics, re.MULTILINE), (alert["alert"], name)


def test_replicas_are_counted_as_the_values_say(helm: Helm) -> None:
    for replicas in (1, 7):
        (group,) = helm.render(FULL, {"replicas": replicas}).one("PrometheusRule")["spec"]["groups"]
        (missing,) = [rule for rule in group["rules"] if rule["alert"] == "MilepostReplicaMissing"]
        assert missing["expr"].endswith(f"< {replicas}")

"""The alerts are well-formed, ask for metrics that a server really has, and each has its runbook."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.deploy.helm import CHART, NAMESPACE, ROOT, Helm, selects
from tests.deploy.metrics import matched, selectors, served, unknown

pytestmark = pytest.mark.kubernetes

FULL = CHART / "ci" / "full-values.yaml"
TLS = CHART / "ci" / "tls-values.yaml"
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
PARTS = ("**It means**", "**It costs**", "**Look at**", "**Do**")

Rules = Sequence[dict[str, Any]]


def rules(helm: Helm, **settings: Any) -> Rules:
    (group,) = helm.render(FULL, settings).one("PrometheusRule")["spec"]["groups"]
    found: Rules = group["rules"]
    return found


@pytest.fixture
def alerts(helm: Helm) -> Rules:
    """Those of the chart; the values add one of their own."""
    *own, added = rules(helm)
    assert added["alert"] == "MilepostManyHandles"
    return own


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("watched")) as text:
        yield text


def test_each_says_what_it_means(alerts: Rules) -> None:
    names = [alert["alert"] for alert in alerts]
    assert len(names) == len(set(names)) == 15
    for alert in alerts:
        assert alert["labels"]["severity"] in ("critical", "warning")
        assert alert["labels"]["team"] == "data", "which the values add"
        assert alert["annotations"]["summary"]
        assert alert["annotations"]["description"]


def test_each_asks_for_metrics_of_this_release_that_exist(alerts: Rules, metrics: str) -> None:
    for alert in alerts:
        assert unknown(alert["expr"], metrics) == set(), alert["alert"]
        for selector in selectors(alert["expr"]):
            labels = matched(selector)
            assert (labels["namespace"], labels["job"]) == (NAMESPACE, "checkpoints")


def test_replicas_are_counted_as_the_values_say(helm: Helm) -> None:
    for replicas in (1, 7):
        (missing,) = [rule for rule in rules(helm, replicas=replicas) if rule["alert"] == "MilepostReplicaMissing"]
        assert missing["expr"].endswith(f"< {replicas}")


def test_single_jobs_are_watched_unless_the_values_say_otherwise(helm: Helm, alerts: Rules) -> None:
    """A job that was stopped in order is neither led nor lost, and so has no alert however old its last batch is."""
    path = "metrics.prometheusRule.jobs"
    of_jobs = {alert["alert"] for alert in alerts if alert["alert"].startswith("MilepostJob")} - {
        "MilepostJournalDamaged"
    }
    assert len(of_jobs) == 4
    (old,) = [alert for alert in alerts if alert["alert"] == "MilepostJobWithoutBatch"]
    assert "> 1800 and min_over_time((" in old["expr"]
    assert old["expr"].endswith("[30m:1m]) > 0")
    assert "{{ $labels.store }}" in old["annotations"]["summary"]
    without = {rule["alert"] for rule in rules(helm, **{f"{path}.minutesWithoutBatch": None})}
    assert of_jobs - without == {"MilepostJobWithoutBatch"}
    assert not of_jobs & {rule["alert"] for rule in rules(helm, **{f"{path}.enabled": False})}


def test_prometheus_shows_the_token_without_which_it_sees_no_single_job(helm: Helm) -> None:
    for values, kind, endpoints in (
        (FULL, "ServiceMonitor", "endpoints"),
        (TLS, "PodMonitor", "podMetricsEndpoints"),
    ):
        token = {"credentials": {"name": "prometheus-milepost", "key": "token"}}
        monitor = f"metrics.{kind[0].lower()}{kind[1:]}.authorization"
        (endpoint,) = helm.render(values, {monitor: token}).one(kind)["spec"][endpoints]
        assert endpoint["authorization"] == token


def test_each_has_a_section_that_says_what_to_do_and_no_section_is_left_over(alerts: Rules) -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", RUNBOOKS, re.MULTILINE | re.DOTALL))
    assert list(sections) == [alert["alert"] for alert in alerts]
    for alert in alerts:
        page, _, section = alert["annotations"]["runbook_url"].partition("#")
        assert page.endswith("/docs/runbooks.md")
        assert section == alert["alert"].lower(), "as pages of Markdown name their sections"
        text = sections[alert["alert"]]
        begins = [text.find(part) for part in PARTS]
        assert begins == sorted(begins), alert["alert"]
        assert begins[0] >= 0, alert["alert"]


def test_links_of_the_runbooks_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", RUNBOOKS)
    assert len(links) > 5
    for name, anchor in links:
        page = ROOT / "docs" / (name or "runbooks.md")
        headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, (name, anchor)


def test_commands_of_the_runbooks_fit_the_chart(helm: Helm) -> None:
    """They stand in runbooks.md for a release of the usual name."""
    rendered = helm.render(CHART / "ci" / "kubernetes-s3-values.yaml", namespace="milepost")
    logs, ask = re.findall(r"```sh\n(.*?)```", RUNBOOKS, re.DOTALL)
    (selector,) = re.findall(r"-l (\S+)", logs)
    assert selects(dict(each.split("=") for each in selector.split(",")), rendered.pod["metadata"]["labels"])
    (port,) = [each["containerPort"] for each in rendered.container["ports"]]
    assert f" {port}:{port}\n" in ask
    assert f"http://127.0.0.1:{port}{rendered.container['startupProbe']['httpGet']['path']}?verbose" in ask
    assert "-n milepost" in logs
    assert "-n milepost" in ask


def test_runbooks_may_stand_elsewhere_or_nowhere(helm: Helm) -> None:
    path = "metrics.prometheusRule.runbookUrl"
    (first, *_) = rules(helm, **{path: "https://wiki.internal/milepost"})
    assert first["annotations"]["runbook_url"] == "https://wiki.internal/milepost#milepostnoleader"
    assert not any("runbook_url" in rule.get("annotations", {}) for rule in rules(helm, **{path: ""}))


def test_pods_that_are_found_as_such_belong_to_the_same_job(helm: Helm) -> None:
    rendered = helm.render(TLS)
    spec = rendered.one("PodMonitor")["spec"]
    job = rendered.pod["metadata"]["labels"][spec["jobLabel"]]
    (group,) = rendered.one("PrometheusRule")["spec"]["groups"]
    assert {matched(selector)["job"] for rule in group["rules"] for selector in selectors(rule["expr"])} == {job}

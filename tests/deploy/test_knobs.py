"""What a platform's owner sets reaches the object that it is for, and says nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.helm import CHART, RELEASE, Helm

pytestmark = pytest.mark.kubernetes

FULL = CHART / "ci" / "full-values.yaml"
PLAIN = CHART / "ci" / "kubernetes-s3-values.yaml"

OF_THE_POD: list[tuple[str, Any]] = [
    ("priorityClassName", "high"),
    ("schedulerName", "second"),
    ("runtimeClassName", "gvisor"),
    ("dnsPolicy", "Default"),
    ("dnsConfig", {"searches": ["internal"]}),
    ("hostAliases", [{"ip": "10.1.2.3", "hostnames": ["s3.internal"]}]),
    ("nodeSelector", {"disk": "ssd"}),
    ("tolerations", [{"key": "dedicated"}]),
    ("affinity", {"podAntiAffinity": {}}),
    ("initContainers", [{"name": "wait", "image": "wait"}]),
    ("terminationGracePeriodSeconds", 90),
]


@pytest.mark.parametrize(("name", "value"), OF_THE_POD, ids=[name for name, _ in OF_THE_POD])
def test_it_reaches_the_pod_as_it_is(helm: Helm, name: str, value: object) -> None:
    assert helm.render(PLAIN, {name: value}).pod["spec"][name] == value


def test_nothing_is_said_that_nobody_set(helm: Helm) -> None:
    rendered = helm.render(PLAIN)
    unset = {name for name, _ in OF_THE_POD} - {"terminationGracePeriodSeconds"}
    assert not unset & set(rendered.pod["spec"])
    assert not {"args", "envFrom"} & set(rendered.container)
    for manifest in rendered.manifests:
        assert None not in manifest["metadata"].values()
        assert {} not in manifest["metadata"].values()


def test_it_reaches_the_container(helm: Helm) -> None:
    settings = {
        "extraArgs": ["--log-level=debug"],
        "extraEnv": [{"name": "A", "value": "1"}],
        "extraEnvFrom": [{"secretRef": {"name": "more"}}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "sidecars": [{"name": "watch", "image": "watch"}],
    }
    rendered = helm.render(PLAIN, settings)
    container, spec = rendered.container, rendered.pod["spec"]
    assert container["args"] == settings["extraArgs"]
    assert container["env"][-1:] == settings["extraEnv"]
    assert container["envFrom"] == settings["extraEnvFrom"]
    assert spec["volumes"][-1:] == settings["extraVolumes"]
    assert container["volumeMounts"][-1:] == settings["extraVolumeMounts"]
    assert [each["name"] for each in spec["containers"]] == ["milepost", "watch"]


def test_probes_can_be_tuned_one_number_at_a_time(helm: Helm) -> None:
    before = helm.render(PLAIN).container
    settings = {"probes.liveness.initialDelaySeconds": 7, "probes.readiness.periodSeconds": 1, "probes.startup": {}}
    after = helm.render(PLAIN, settings).container
    assert after["livenessProbe"] == {**before["livenessProbe"], "initialDelaySeconds": 7}
    assert after["startupProbe"] == before["startupProbe"]
    probe = after["readinessProbe"]
    assert probe["periodSeconds"] * (probe["failureThreshold"] - 1) > 15 + 5, "more of them make up a lease"
    chosen = helm.render(PLAIN, {"probes.readiness.failureThreshold": 3}).container["readinessProbe"]
    assert chosen["failureThreshold"] == 3


def test_common_labels_and_annotations_are_on_everything_and_select_nothing(helm: Helm) -> None:
    rendered = helm.render(FULL)
    for manifest in [*rendered.manifests, rendered.pod]:
        assert manifest["metadata"]["labels"]["cost-center"] == "data"
        assert manifest["metadata"]["annotations"]["owner"] == "data-platform"
    selectors = [yaml.dump(each["spec"].get("selector")) for each in rendered.manifests if "spec" in each]
    assert not any("cost-center" in selector for selector in selectors)


def test_the_charts_own_labels_win(helm: Helm) -> None:
    theirs = {"app.kubernetes.io/instance": "other", "app.kubernetes.io/component": "other", "team": "data"}
    for name in ("commonLabels", "podLabels"):
        rendered = helm.render(PLAIN, {name: theirs})
        labels = rendered.pod["metadata"]["labels"]
        assert (labels["app.kubernetes.io/instance"], labels["team"]) == (RELEASE, "data")
        assert labels["app.kubernetes.io/component"] == "server"


def test_services_have_what_they_are_given(helm: Helm) -> None:
    rendered = helm.render(FULL)
    service, leader = rendered.one("Service", "checkpoints")["spec"], rendered.one("Service", "-leader")["spec"]
    assert (service["type"], service["externalTrafficPolicy"]) == ("NodePort", "Local")
    assert [port["nodePort"] for port in service["ports"]] == [30070]
    assert leader["loadBalancerClass"] == "internal.example.com/nlb"
    assert leader["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
    assert not {"clusterIP", "loadBalancerIP", "externalTrafficPolicy"} & set(leader)


def test_without_tokens_it_answers_to_the_names_that_gateways_have(helm: Helm) -> None:
    """Without tokens a server answers to no names but those it is told."""
    ways = {
        "ingress": {"enabled": True, "hosts": ["milepost.example.com"]},
        "httpRoute": {"enabled": True, "hostnames": ["milepost.example.org"], "parentRefs": [{"name": "public"}]},
    }
    open_to_all = {"auth": {"existingSecret": "", "insecure": True, "hosts": ["own.example"]}}
    hosts = helm.render(PLAIN, {**ways, **open_to_all}).environment()["MILEPOST_HOSTS"].split(",")
    assert {"milepost.example.com", "milepost.example.org", "own.example", "milepost-leader.data.svc"} <= set(hosts)
    assert "MILEPOST_HOSTS" not in helm.render(PLAIN, ways).environment()


def test_budgets_are_of_one_kind(helm: Helm) -> None:
    for settings, said in (
        ({}, {"maxUnavailable": 1}),
        ({"podDisruptionBudget.minAvailable": 2}, {"minAvailable": 2}),
        ({"podDisruptionBudget.minAvailable": "50%"}, {"minAvailable": "50%"}),
    ):
        spec = helm.render(PLAIN, settings).one("PodDisruptionBudget")["spec"]
        assert {name: spec[name] for name in ("minAvailable", "maxUnavailable") if name in spec} == said


def test_the_strategy_can_be_another(helm: Helm) -> None:
    assert helm.render(PLAIN, {"strategy": {"type": "Recreate", "rollingUpdate": None}}).one("Deployment")["spec"][
        "strategy"
    ] == {"type": "Recreate"}


def test_it_is_rendered_alike_each_time_without_a_cluster(helm: Helm, values: Path) -> None:
    """GitOps compares what is rendered with what is there: by chance it must not differ."""
    arguments = ("template", RELEASE, CHART, "--values", values)
    assert helm.run(*arguments) == helm.run(*arguments)


def test_a_rollout_is_a_change_of_the_pods_and_of_nothing_else(helm: Helm) -> None:
    first, second = (helm.render(PLAIN, {"rollout": text}) for text in ("1", "2"))
    differ = [one["kind"] for one, two in zip(first.manifests, second.manifests, strict=True) if one != two]
    assert differ == ["Deployment"]
    assert first.pod["metadata"]["annotations"]["milepost/rollout"] == "1"


def test_as_a_subchart_it_can_be_left_out_and_takes_global_values(helm: Helm, tmp_path: Path) -> None:
    parent = tmp_path / "platform"
    (parent / "templates").mkdir(parents=True)
    (parent / "charts").mkdir()
    (parent / "charts" / "milepost").symlink_to(CHART)
    dependency = {"name": "milepost", "version": "*", "condition": "milepost.enabled"}
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [dependency]}
    (parent / "Chart.yaml").write_text(yaml.safe_dump(chart))
    given = {"auth": {"insecure": True}, "blobs": {"s3": {"bucket": "states"}}}
    (parent / "values.yaml").write_text(
        yaml.safe_dump({"milepost": given, "global": {"imageRegistry": "registry.internal", "other": {"a": 1}}})
    )
    rendered = [each for each in yaml.safe_load_all(helm.run("template", "one", parent)) if each]
    (deployment,) = [each for each in rendered if each["kind"] == "Deployment"]
    assert deployment["metadata"]["name"] == "one-milepost"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.internal/milepost:0.1.0"
    assert helm.run("template", "one", parent, "--set", "milepost.enabled=false").strip() == ""

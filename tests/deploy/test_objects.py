"""The objects of a release fit together, and are those that a pair of pointers and blobs needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from milepost_backends.kubernetes.address import INSTANCE, LEADER, ROLE, KubernetesAddress, labels_of
from milepost_server import server
from milepost_server.replica.settings import Settings
from tests.deploy.helm import CHART, PAIRS, VALUES, Helm, Manifest, Refused, Rendered, selects

pytestmark = pytest.mark.kubernetes

CI = CHART / "ci"
ALWAYS = {"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy", "Pod"}
IN_KUBERNETES = {"Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
IN_NO_NAMESPACE = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRoleBinding"}


def labels(manifest: Manifest) -> dict[str, str]:
    found: dict[str, str] = manifest["metadata"].get("labels", {})
    return found


def services(rendered: Rendered) -> list[str]:
    return sorted(each["metadata"]["name"] for each in rendered.of("Service"))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda path: path.name.removesuffix("-values.yaml"))
def test_each_pair_has_what_it_needs_and_no_more(helm: Helm, pair: Path) -> None:
    rendered = helm.render(pair)
    inside = pair.name.startswith("kubernetes")
    configured = {"ConfigMap"} if pair.name == "kubernetes-hdfs-values.yaml" else set()
    assert rendered.kinds == ALWAYS | configured | (IN_KUBERNETES if inside else set())
    assert services(rendered) == (["milepost", "milepost-leader"] if inside else ["milepost"])
    assert rendered.pod["spec"]["automountServiceAccountToken"] is inside


def test_all_stand_in_the_namespace_and_say_whose_they_are(helm: Helm, values: Path) -> None:
    for manifest in helm.render(values, namespace="elsewhere").manifests:
        metadata = manifest["metadata"]
        if manifest["kind"] in IN_NO_NAMESPACE:
            assert "namespace" not in metadata
            assert metadata["name"].endswith(".elsewhere"), "a release of this name in another namespace has another"
        elif manifest["kind"] == "ServiceMonitor" and values.name == "full-values.yaml":
            assert metadata["namespace"] == "monitoring"
        else:
            assert metadata["namespace"] == "elsewhere"
        assert labels(manifest)["app.kubernetes.io/managed-by"] == "Helm"
        assert not labels_of(labels(manifest)[INSTANCE]).items() <= labels(manifest).items()  # Milepost touches none


def test_three_replicas_one_more_before_one_less(helm: Helm) -> None:
    spec = helm.render(CI / "kubernetes-s3-values.yaml").one("Deployment")["spec"]
    assert spec["replicas"] == 3
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_what_selects_replicas_selects_all_of_them_and_nothing_else(helm: Helm, values: Path) -> None:
    rendered = helm.render(values)
    selectors = [rendered.one("Deployment")["spec"]["selector"]["matchLabels"]]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in rendered.of("PodDisruptionBudget")]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in rendered.of("NetworkPolicy")]
    selectors += [
        each["labelSelector"]["matchLabels"] for each in rendered.pod["spec"].get("topologySpreadConstraints", [])
    ]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in rendered.of("PodMonitor")]
    for service in rendered.of("Service"):
        selector = dict(service["spec"]["selector"])
        role = selector.pop(ROLE, None)
        assert role == (LEADER if service["metadata"]["name"].endswith("-leader") else None)
        selectors.append(selector)
    (tried,) = rendered.of("Pod")
    for selector in selectors:
        assert selects(selector, labels(rendered.pod))
        assert not selects(selector, labels(tried))


def test_the_election_finds_the_pods_by_the_name_it_goes_by(helm: Helm) -> None:
    for settings in ({}, {"fullnameOverride": "other"}, {"nameOverride": "kept"}):
        rendered = helm.render(CI / "kubernetes-s3-values.yaml", settings, release="one")
        environment = rendered.environment(POD_IP="10.0.0.1", POD_NAME="a-pod")
        assert labels(rendered.pod)[INSTANCE] == KubernetesAddress.parse(environment["MILEPOST_POINTERS"]).name


def test_ports_lead_to_the_one_that_is_listened_on(helm: Helm, values: Path) -> None:
    rendered = helm.render(values)
    assert rendered.container["ports"] == [{"name": "http", "containerPort": 7070}]
    assert rendered.environment(POD_IP="a", POD_NAME="b")["MILEPOST_LISTEN"].endswith(":7070")
    for service in rendered.of("Service"):
        assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"]


def test_pods_have_no_right_that_they_do_not_need(helm: Helm, values: Path) -> None:
    for pod in helm.render(values).pods:
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert not any("hostPath" in volume for volume in spec.get("volumes", []))
        (container,) = [each for each in spec["containers"] if each["name"] in ("milepost", "test")]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert set(container["resources"]["limits"]) == {"memory"}


def test_a_pod_has_time_to_step_down(helm: Helm, values: Path) -> None:
    rendered = helm.render(values)
    left = rendered.pod["spec"]["terminationGracePeriodSeconds"]
    left -= rendered.container["lifecycle"]["preStop"]["sleep"]["seconds"]
    writes = parts = Settings().resign_seconds
    assert left > writes + parts + server.GRACE_SECONDS, "what follows where the Lease is let go at once"
    pointers = rendered.environment(POD_IP="a", POD_NAME="b")["MILEPOST_POINTERS"]
    if pointers.startswith("kubernetes:"):
        assert left > writes + KubernetesAddress.parse(pointers).renew_deadline, (
            "the Lease is let go at the latest by then"
        )


@pytest.mark.parametrize(
    ("settings", "lease"),
    [
        ({}, 15),
        ({"pointers.kubernetes.leaseDuration": 60}, 60),
        ({"pointers.kind": "zookeeper", "pointers.zookeeper": {"hosts": ["zk"], "sessionTimeout": 40}}, 40),
    ],
    ids=["default", "long-lease", "long-session"],
)
def test_nobody_is_unready_for_want_of_a_leader_while_a_lease_runs_out(
    helm: Helm, settings: dict[str, Any], lease: float
) -> None:
    probe = helm.render(CI / "kubernetes-s3-values.yaml", settings).container["readinessProbe"]
    assert probe["periodSeconds"] * (probe["failureThreshold"] - 1) > lease + 5


def test_liveness_asks_no_storage_and_readiness_none_that_all_share(helm: Helm) -> None:
    container = helm.render(CI / "kubernetes-s3-values.yaml").container
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz?exclude=pointers&exclude=blobs"
    assert container["startupProbe"]["httpGet"]["path"] == "/readyz"


def test_a_changed_configuration_restarts_replicas_and_nothing_else_does(helm: Helm) -> None:
    def checksums(settings: dict[str, Any]) -> dict[str, str]:
        annotations = helm.render(CI / "kubernetes-hdfs-values.yaml", settings).pod["metadata"]["annotations"]
        return {name: value for name, value in annotations.items() if name.startswith("checksum/")}

    first = checksums({})
    assert set(first) == {"checksum/secrets", "checksum/hadoop"}
    assert checksums({"replicas": 2, "service.port": 80}) == first
    changed = checksums({"blobs.hdfs.configuration": {"core-site.xml": "<configuration/>"}})
    assert changed["checksum/hadoop"] != first["checksum/hadoop"]
    assert changed["checksum/secrets"] == first["checksum/secrets"]


def test_the_image_is_named_by_tag_or_digest(helm: Helm) -> None:
    assert helm.render(CI / "kubernetes-s3-values.yaml").container["image"] == "milepost:0.1.0"
    full = helm.render(CI / "full-values.yaml")
    assert full.container["image"].startswith("registry.internal:5000/platform/milepost@sha256:0123")
    assert {pod["spec"]["containers"][0]["image"] for pod in full.pods} == {full.container["image"]}
    for pod in full.pods:
        assert pod["spec"]["imagePullSecrets"] == [{"name": "shared"}, {"name": "registry"}]
    own = helm.render(
        CI / "full-values.yaml", {"image.registry": "mirror.internal", "image.digest": "", "image.tag": "2"}
    )
    assert own.container["image"] == "mirror.internal/platform/milepost:2"


def test_the_leaders_service_waits_for_no_probe(helm: Helm) -> None:
    rendered = helm.render(CI / "kubernetes-s3-values.yaml")
    assert rendered.one("Service", "-leader")["spec"]["publishNotReadyAddresses"] is True
    assert "publishNotReadyAddresses" not in rendered.one("Service", "milepost")["spec"]


def test_the_role_is_bound_to_the_account_that_pods_have(helm: Helm, values: Path) -> None:
    rendered = helm.render(values)
    account = rendered.pod["spec"]["serviceAccountName"]
    assert rendered.one("ServiceAccount")["metadata"]["name"] == account
    for binding in rendered.of("RoleBinding"):
        assert [subject["name"] for subject in binding["subjects"]] == [account]
        assert binding["roleRef"]["name"] == rendered.one("Role")["metadata"]["name"]


def test_what_somebody_else_provides_is_not_made(helm: Helm) -> None:
    rendered = helm.render(
        CI / "kubernetes-s3-values.yaml",
        {"serviceAccount": {"create": False, "name": "given"}, "rbac.create": False},
    )
    assert not {"ServiceAccount", "Role", "RoleBinding"} & rendered.kinds
    assert rendered.pod["spec"]["serviceAccountName"] == "given"


def test_nothing_of_the_prometheus_operator_unless_it_is_asked_for(helm: Helm) -> None:
    assert not {"ServiceMonitor", "PrometheusRule"} & helm.render(CI / "kubernetes-s3-values.yaml").kinds
    full = helm.render(CI / "full-values.yaml")
    selector = full.one("ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert [each["metadata"]["name"] for each in full.of("Service") if selects(selector, labels(each))] == [
        "checkpoints"
    ]


def test_a_restricted_platform_may_choose_the_user(helm: Helm) -> None:
    chosen = {f"podSecurityContext.{name}": None for name in ("runAsUser", "runAsGroup", "fsGroup")}
    context = helm.render(CI / "kubernetes-s3-values.yaml", chosen).pod["spec"]["securityContext"]
    assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_older_clusters_are_refused_by_version(helm: Helm) -> None:
    with pytest.raises(Refused, match="incompatible with Kubernetes"):
        helm.run("template", "milepost", CHART, "--values", VALUES[0], "--kube-version", "1.29.0")

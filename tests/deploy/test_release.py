"""A release on a real API server: installed, upgraded, rolled back and removed. No Pod runs, since there is no node."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from milepost_backends.kubernetes.address import labels_of, selector
from tests.deploy.helm import CHART, Helm, Refused, chosen
from tests.deploy.objects import Objects

pytestmark = pytest.mark.kubernetes

VALUES = CHART / "ci" / "kubernetes-s3-values.yaml"


class Release:
    """One release in a namespace of its own."""

    def __init__(self, helm: Helm, objects: Objects) -> None:
        self._helm = helm
        self._admin = objects.api.admin
        self.namespace = objects.namespace()

    def helm(self, command: str, *arguments: str | Path) -> str:
        """What Helm prints."""
        return self._helm.run(command, "--namespace", self.namespace, *arguments)

    def apply(self, command: str, settings: dict[str, object] | None = None) -> str:
        """Install or upgrade."""
        return self.helm(command, "milepost", CHART, *chosen(VALUES, settings))

    def get(self, path: str) -> Any:
        """The content of an object, or None."""
        status, content = self._admin.request("GET", self._below(path))
        assert status in (200, 404), content
        return content if status == 200 else None

    def annotations(self) -> dict[str, str]:
        """The annotations of the Pods to come."""
        deployment = self.get("deployments/milepost")
        found: dict[str, str] = deployment["spec"]["template"]["metadata"]["annotations"]
        return found

    def put(self, path: str, content: dict[str, Any]) -> None:
        """Make an object, or put it in the place of the one that is there."""
        kind = path.partition("/")[0]
        existing = self.get(path)
        method, target = ("PUT", path) if existing else ("POST", kind)
        self._admin.ask(method, self._below(target), content)

    def secret(self, name: str, **data: str) -> None:
        """Make a Secret, or change it."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.put(f"secrets/{name}", {"metadata": {"name": name}, "data": encoded})

    def _below(self, path: str) -> str:
        group = {
            "deployments": "/apis/apps/v1",
            "roles": "/apis/rbac.authorization.k8s.io/v1",
            "leases": "/apis/coordination.k8s.io/v1",
        }.get(path.partition("/")[0], "/api/v1")
        return f"{group}/namespaces/{self.namespace}/{path}"


@pytest.fixture
def release(helm_program: str, objects: Objects, tmp_path: Path) -> Release:
    return Release(Helm(helm_program, tmp_path, objects.api.admin_kubeconfig), objects)


def test_a_release_from_its_beginning_to_its_end(release: Release) -> None:
    said = release.apply("install")
    assert "rollout status deployment/milepost" in said
    assert release.get("roles/milepost")["rules"]
    kept = {"metadata": {"name": "milepost-root-1", "labels": labels_of("milepost")}, "data": {"key": "value"}}
    release.put("configmaps/milepost-root-1", kept)
    release.put("leases/milepost", {"metadata": {"name": "milepost", "labels": labels_of("milepost")}})

    release.apply("upgrade", {"replicas": 5})
    assert release.get("deployments/milepost")["spec"]["replicas"] == 5
    release.helm("rollback", "milepost", "1")
    assert release.get("deployments/milepost")["spec"]["replicas"] == 3

    release.helm("uninstall", "milepost")
    assert release.get("deployments/milepost") is None
    assert release.get("roles/milepost") is None
    kept_after = release.get(f"configmaps?labelSelector={selector(labels_of('milepost'))}")["items"]
    assert [each["data"] for each in kept_after] == [{"key": "value"}]
    assert release.get("leases/milepost") is not None


def test_cells_are_added_and_none_is_taken_away(release: Release) -> None:
    release.apply("install")
    first = release.get("deployments/milepost")["metadata"]["uid"]
    for cells in (2, 3, 3):
        said = release.apply("upgrade", {"cells": cells})
        assert f"{cells} cell(s) of 3 replica(s)" in said
        assert f"deployment/milepost-cell-{cells - 1}\n" in said
    assert len(release.get("configmaps/milepost-cells")["data"]["cells"].splitlines()) == 3
    for fewer in (2, 0):
        with pytest.raises(Refused, match=f"cells={fewer}, and there are 3"):
            release.apply("upgrade", {"cells": fewer})
    assert release.get("deployments/milepost")["metadata"]["uid"] == first, "it became a cell where it is"
    assert release.get("deployments/milepost-cell-2")


def test_a_package_is_installed_as_well(release: Release, tmp_path: Path) -> None:
    release.helm("package", CHART, "--destination", tmp_path)
    (archive,) = tmp_path.glob("milepost-*.tgz")
    assert "rollout status deployment/milepost" in release.helm("install", "milepost", archive, *chosen(VALUES))
    assert release.get("deployments/milepost")["spec"]["replicas"] == 3


def test_a_changed_secret_that_is_read_at_the_start_restarts_replicas_at_the_next_upgrade(release: Release) -> None:
    """Tokens are read again by the servers themselves, as certificates are."""
    settings: dict[str, object] = {"blobs.s3.existingSecret": "milepost-s3"}
    release.secret("milepost-tokens", tokens="driver 0123456789abcdef")
    release.secret("milepost-s3", AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="key")
    release.secret("unrelated", key="value")
    release.apply("install", settings)
    first = release.annotations()
    release.secret("unrelated", key="other value")
    release.secret("milepost-tokens", tokens="driver fedcba9876543210")
    release.apply("upgrade", settings)
    assert release.annotations() == first
    release.secret("milepost-s3", AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="other key")
    release.apply("upgrade", settings)
    assert release.annotations()["checksum/secrets"] != first["checksum/secrets"]


def test_a_configuration_of_somebody_else_does_the_same(release: Release) -> None:
    settings: dict[str, object] = {"blobs.kind": "hdfs", "blobs.hdfs": {"existingConfigMap": "hadoop"}}

    def written(text: str) -> None:
        data = {"core-site.xml": text}
        release.put("configmaps/hadoop", {"metadata": {"name": "hadoop"}, "data": data})

    written("<configuration/>")
    release.apply("install", settings)
    first = release.annotations()
    written("<configuration></configuration>")
    release.apply("upgrade", settings)
    assert release.annotations()["checksum/hadoop"] != first["checksum/hadoop"]
    assert release.annotations()["checksum/secrets"] == first["checksum/secrets"]


def test_notes_say_what_to_do_next_in_words_that_fit_the_values(release: Release, values: Path) -> None:
    flags = ("--dry-run=client", *chosen(values))
    said = release.helm("install", "milepost", CHART, *flags).partition("NOTES:")[2]
    full = values.name == "full-values.yaml"
    name = "checkpoints" if full else "milepost"
    assert f"rollout status deployment/{name}" in said
    secured = values.name in ("tls-values.yaml", "mtls-values.yaml")
    url = f"http{'s' if secured else ''}://{name}.{release.namespace}:{80 if full else 7070}"
    assert f'milepost.Client("{url}"' in said
    assert ("--cacert ca.crt" in said) is secured
    assert ('verify="ca.crt"' in said) is secured
    assert ("with load_cert_chain" in said) is (values.name == "mtls-values.yaml")
    assert ("kubectl -n my-namespace create token" in said) is (values.name == "tls-values.yaml")
    insecure = values.name in ("small-values.yaml", "ipv6-values.yaml")
    assert ("WARNING: auth.insecure" in said) is insecure
    assert ("get secret milepost-tokens" in said) is not (insecure or values.name == "mtls-values.yaml")
    assert ("WARNING: with one replica" in said) is (values.name == "small-values.yaml")
    assert ("get lease" in said) is (not values.name.startswith(("zookeeper", "mtls")))
    narrow = values.name in ("full-values.yaml", "ipv6-values.yaml", "kubernetes-s3-values.yaml", "tls-values.yaml")
    assert ("by port 443, 6443, 8443, 16443 alone" in said) is narrow
    assert "<no value>" not in said


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({}, False),
        ({"networkPolicy.metrics": []}, True),
        ({"networkPolicy.metrics": [], "metrics.prometheusRule.enabled": False}, True),
        ({"networkPolicy.metrics": [], "networkPolicy.enabled": False}, False),
        ({"networkPolicy.metrics": [], "networkPolicy.clients": [{"namespaceSelector": {}}, {"ipBlock": {}}]}, False),
    ],
    ids=["named", "nobody", "no-rule", "no-policy", "everybody"],
)
def test_notes_warn_of_a_prometheus_that_may_be_shut_out(
    release: Release, settings: dict[str, object], warned: bool
) -> None:
    flags = ("--dry-run=client", *chosen(CHART / "ci" / "full-values.yaml", settings))
    said = release.helm("install", "milepost", CHART, *flags).partition("NOTES:")[2]
    assert said
    assert ("Unless Prometheus is among the" in said) is warned
    assert ("MilepostNoLeader fires for ever" in said) is (warned and "metrics.prometheusRule.enabled" not in settings)


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"cells": 3}, False),
        ({"cells": 4}, True),
        ({"cells": 4, "pointers.kubernetes.bytesPerSecond": 100_000}, False),
        ({"cells": 4, "pointers.kind": "zookeeper", "pointers.zookeeper.hosts": ["zk"]}, False),
    ],
    ids=["three", "four", "narrow", "zookeeper"],
)
def test_notes_warn_of_cells_that_may_fill_etcd(release: Release, settings: dict[str, object], warned: bool) -> None:
    """Each has the budgets of the values, and all share one quota."""
    said = release.helm("install", "milepost", CHART, "--dry-run=client", *chosen(VALUES, settings))
    assert 'milepost.Client("@/etc/milepost/cells"' in said
    assert ("cells write up to 2696 MB into one etcd" in said) is warned


@pytest.mark.parametrize(
    ("settings", "ttl"),
    [
        ({}, 45),
        ({"pointers.kubernetes": {"leaseDuration": 6.5, "renewDeadline": 4, "retryPeriod": 1}}, 20),
        ({"pointers.kubernetes": {"leaseDuration": 5, "renewDeadline": 3, "retryPeriod": 1}}, None),
        ({"pointers.kind": "zookeeper", "pointers.zookeeper.hosts": ["zk"]}, None),
        ({"pointers.kind": "zookeeper", "pointers.zookeeper": {"hosts": ["zk"], "sessionTimeout": 40}}, 120),
    ],
    ids=["default", "shorter", "short", "zookeeper", "long-session"],
)
def test_notes_say_how_long_sessions_must_last_where_the_sdks_own_ttl_is_too_short(
    release: Release, settings: dict[str, object], ttl: int | None
) -> None:
    flags = ("--dry-run=client", *chosen(VALUES, settings))
    said = release.helm("install", "milepost", CHART, *flags).partition("NOTES:")[2]
    assert said
    assert re.findall(r"\bttl=(\S+)\)", said) == ([] if ttl is None else [str(ttl)] * 2)

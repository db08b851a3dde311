"""A real API server takes every object of the chart, and would run the Pods where only restricted ones may run."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tests.deploy.helm import CHART, VALUES, Helm, Manifest
from tests.deploy.objects import RESTRICTED, Objects

pytestmark = pytest.mark.kubernetes

FULL = CHART / "ci" / "full-values.yaml"
OF_OTHERS = {
    "Certificate",
    "ServiceMonitor",
    "PodMonitor",
    "PrometheusRule",
    "HTTPRoute",
    "BackendTLSPolicy",
}
"""The kinds whose definitions come from the releases of cert-manager, Prometheus Operator and Gateway API."""


def test_every_object_is_accepted(helm: Helm, objects: Objects, values: Path) -> None:
    rendered = helm.render(values, namespace=objects.namespace())
    answers = {f"{each['kind']} {each['metadata']['name']}": objects.would_take(each) for each in rendered.manifests}
    assert len(answers) == len(rendered.manifests)
    assert {name: content for name, (status, content) in answers.items() if status != 201} == {}


def test_an_unknown_field_would_not_be_accepted(helm: Helm, objects: Objects) -> None:
    """Neither of Kubernetes' own kinds nor of those of others, which the chart makes with all its values together."""
    namespace = objects.namespace()
    manifests: dict[str, Manifest] = {}
    for values in VALUES:
        for each in helm.render(values, namespace=namespace).manifests:
            manifests.setdefault(each["kind"], each)
    assert manifests.keys() >= OF_OTHERS
    for kind in ("Deployment", "ValidatingAdmissionPolicy", *sorted(OF_OTHERS)):
        manifest = copy.deepcopy(manifests[kind])
        manifest["spec"]["replica"] = 3
        status, content = objects.would_take(manifest)
        assert status in (400, 500), content
        assert ".spec.replica" in content["message"]


def test_pods_may_run_where_only_restricted_ones_may(helm: Helm, objects: Objects, values: Path) -> None:
    namespace = objects.namespace(RESTRICTED)
    for pod in helm.render(values).pods:
        status, content = objects.would_run(pod, namespace)
        assert status == 201, content


def test_a_pod_that_may_write_as_root_may_not_run_there(helm: Helm, objects: Objects) -> None:
    pod = copy.deepcopy(helm.render(FULL).pod)
    pod["spec"]["securityContext"]["runAsUser"] = 0
    status, content = objects.would_run(pod, objects.namespace(RESTRICTED))
    assert status == 403, content
    assert "violates PodSecurity" in content["message"]

"""Values that mean nothing are refused before anything reaches a cluster, and what is missing is asked for in words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.helm import CHART, Helm, Refused

pytestmark = pytest.mark.kubernetes

SENSIBLE = CHART / "ci" / "kubernetes-s3-values.yaml"

NONSENSE: list[tuple[str, Any]] = [
    ("replica", 3),
    ("replicas", 0),
    ("replicas", "three"),
    ("replicas", 2.5),
    ("replicas", 10),
    ("cells", -1),
    ("cells", 65),
    ("cells", ["a", "b"]),
    ("cellList.namespaces", ["a.b"]),
    ("image.repository", ""),
    ("image.repository", "Milepost"),
    ("image.tag", "a b"),
    ("image.digest", "sha256:short"),
    ("image.pullPolicy", "Sometimes"),
    ("imagePullSecrets", ["registry"]),
    ("fullnameOverride", "Checkpoints"),
    ("fullnameOverride", "c" * 41),
    ("auth.existingSecret", "Milepost_Tokens"),
    ("auth.insecure", "yes"),
    ("auth.token", "secret"),
    ("auth.key", "a/b"),
    ("pointers.kind", "etcd"),
    ("pointers.kind", "embedded"),
    ("pointers.url", "kubernetes:///milepost"),
    ("pointers.kubernetes.leaseDuration", 2),
    ("pointers.kubernetes.leaseDuration", "15s"),
    ("pointers.kubernetes.retryPeriod", 0.1),
    ("pointers.kubernetes.bytesPerSecond", 1000),
    ("pointers.kubernetes.mostBytes", 1000),
    ("pointers.zookeeper.hosts", "zk-0:2181"),
    ("pointers.zookeeper.hosts", ["zk-0:2181,zk-1:2181"]),
    ("pointers.zookeeper.hosts", ["user:password@zk-0:2181"]),
    ("pointers.zookeeper.path", "milepost"),
    ("pointers.zookeeper.path", "/../other"),
    ("pointers.zookeeper.sessionTimeout", 0),
    ("pointers.zookeeper.tls.verify", "maybe"),
    ("blobs.kind", "gcs"),
    ("blobs.s3.bucket", "s3://bucket"),
    ("blobs.s3.bucket", "ab"),
    ("blobs.s3.bucket", "bucket?endpoint_url=http://elsewhere"),
    ("blobs.s3.prefix", "/absolute"),
    ("blobs.s3.prefix", "$(POD_IP)"),
    ("blobs.s3.endpointUrl", "s3.internal:8333"),
    ("blobs.s3.endpointUrl", "https://user:password@s3.internal"),
    ("blobs.s3.region", "eu central"),
    ("blobs.s3.addressingStyle", "dns"),
    ("blobs.s3.accessKey", "AKIA"),
    ("blobs.hdfs.authority", "hdfs://namenode:8020"),
    ("blobs.hdfs.path", "/"),
    ("blobs.hdfs.replication", 0),
    ("blobs.hdfs.configuration", {"../passwd": ""}),
    ("server.linger", -1),
    ("server.linger", "60s"),
    ("server.maxStateBytes", 0),
    ("server.inlineBelow", 32769),
    ("server.logLevel", "loud"),
    ("serviceAccount.annotations", {"number": 1}),
    ("service.type", "ExternalName"),
    ("service.port", 70000),
    ("leaderService.port", 7071),
    ("ipFamily", "IPv5"),
    ("podDisruptionBudget.maxUnavailable", 0),
    ("podDisruptionBudget.maxUnavailable", "half"),
    ("podDisruptionBudget.maxUnavailable", "0%"),
    ("topologySpreadConstraints", [{"maxSkew": 1}]),
    (
        "topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}],
    ),
    ("tolerations", {"key": "dedicated"}),
    ("preStopSeconds", 0),
    ("terminationGracePeriodSeconds", 10),
    ("networkPolicy.clients", []),
    ("networkPolicy.metrics", {"namespaceSelector": {}}),
    ("networkPolicy.egress.hdfsPorts", [0]),
    ("metrics.serviceMonitor.interval", "often"),
    ("metrics.prometheusRule.enabled", 1),
    ("metrics.prometheusRule.jobs.minutesWithoutBatch", 0),
    ("metrics.serviceMonitor.authorization", "token"),
    ("extraEnv", {"NAME": "value"}),
    ("enabled", "no"),
    ("global.imageRegistry", "https://registry"),
    ("image.registry", "https://registry"),
    ("commonLabels", {"team": "a b"}),
    ("commonLabels", {"a b": "team"}),
    ("podLabels", {"number": 1}),
    ("clusterDomain", "cluster local"),
    ("auth.serviceAccounts.audience", "two words"),
    ("tls.enabled", True),
    ("tls.existingSecret", "TLS"),
    ("tls.caKey", "../ca.crt"),
    ("tls.certManager.duration", "90d"),
    ("tls.certManager.dnsNames", ["https://milepost"]),
    ("tls.certManager.issuerRef", {"namespace": "other"}),
    ("tls.clientCa.key", ""),
    ("tls.replicaDomain", "*.replicas"),
    ("rbac.admissionPolicy", "yes"),
    ("service.nodePort", -1),
    ("service.loadBalancerSourceRanges", ["10.0.0.1"]),
    ("leaderService.externalTrafficPolicy", "Here"),
    ("ingress.hosts", ["https://milepost.example.com"]),
    ("ingress.hosts", [{"host": "milepost.example.com"}]),
    ("httpRoute.parentRefs", ["gateway"]),
    ("podDisruptionBudget.minAvailable", "100%"),
    ("strategy.rollingUpdate", "fast"),
    ("strategy.type", "OnDelete"),
    ("probes.readiness.periodSeconds", 0),
    ("probes.startup.path", "/"),
    ("dnsPolicy", "Cluster"),
    ("hostAliases", [{"ip": "10.0.0.1"}]),
    ("networkPolicy.egress.enabled", "sometimes"),
    ("metrics.podMonitor.scrapeTimeout", "10"),
    ("metrics.prometheusRule.runbookUrl", "runbooks.md"),
    ("metrics.dashboard.label", ""),
    ("extraArgs", "--log-level=debug"),
    ("extraVolumeMounts", [{"name": "volume"}]),
    ("sidecars", [{"name": "milepost", "image": "another"}]),
    ("initContainers", [{"image": "nameless"}]),
]


@pytest.mark.parametrize(("path", "value"), NONSENSE, ids=lambda part: str(part)[:40])
def test_the_schema_refuses_it(helm: Helm, path: str, value: object) -> None:
    with pytest.raises(Refused) as refused:
        helm.render(SENSIBLE, {path: value})
    assert "values don't meet the specifications of the schema" in str(refused.value)


OPEN = {"auth.insecure": True, "blobs.s3.bucket": "states"}

CHOICES: list[tuple[dict[str, Any], str]] = [
    ({"blobs.s3.bucket": "states"}, "How do clients show who they are?"),
    ({"auth.insecure": True}, "Where do states go?"),
    ({"auth.insecure": True, "blobs.kind": "hdfs"}, "Where is HDFS?"),
    ({"auth.insecure": True, "blobs.s3.bucket": "states", "pointers.kind": "zookeeper"}, "Where is ZooKeeper?"),
    ({"auth.insecure": True, "auth.existingSecret": "tokens"}, "exclude each other"),
    (
        {
            "auth.insecure": True,
            "blobs.kind": "hdfs",
            "blobs.hdfs": {"configuration": {"core-site.xml": "<a/>"}, "existingConfigMap": "hadoop"},
        },
        "exclude each other",
    ),
    ({"auth.insecure": True, "pointers.kubernetes.leaseDuration": 10}, "leaseDuration must be longer"),
    ({"auth.insecure": True, "pointers.kubernetes.retryPeriod": 12}, "leaseDuration must be longer"),
    ({"auth.insecure": True, "pointers.zookeeper.tls.clientCertificate": True}, "needs"),
    ({**OPEN, "leaderService.type": "LoadBalancer"}, "leaderService.type=LoadBalancer lets in who comes from outside"),
    ({**OPEN, "service.type": "NodePort"}, "service.type=NodePort lets in who comes from outside"),
    ({**OPEN, "metrics.prometheusRule.enabled": True}, "metrics.prometheusRule needs metrics.serviceMonitor.enabled"),
    ({**OPEN, "enabled": False}, "condition: milepost.enabled"),
    ({**OPEN, "auth.serviceAccounts.audience": "milepost"}, "whose lines say what each account may do"),
    ({**OPEN, "tls": {"existingSecret": "tls", "certManager": {"enabled": True}}}, "who makes the certificate?"),
    ({**OPEN, "tls.certManager.enabled": True}, "Who issues the certificate?"),
    ({"blobs.s3.bucket": "states", "tls.clientCa.existingSecret": "ca"}, "without TLS no client shows a certificate"),
    (
        {
            "blobs.s3.bucket": "states",
            "tls": {"existingSecret": "tls", "clientCa": {"existingSecret": "a", "existingConfigMap": "b"}},
        },
        "tls.clientCa.existingSecret and tls.clientCa.existingConfigMap exclude each other",
    ),
    ({**OPEN, "service.nodePort": 30070}, "service.nodePort needs service.type"),
    ({**OPEN, "leaderService.loadBalancerClass": "nlb"}, "leaderService.loadBalancerClass needs"),
    ({**OPEN, "service.externalTrafficPolicy": "Local"}, "service.externalTrafficPolicy needs"),
    ({**OPEN, "ingress.enabled": True}, "For which names is the Ingress?"),
    (
        {**OPEN, "ingress": {"enabled": True, "hosts": ["m.example"]}, "leaderService.enabled": False},
        "ingress leads to",
    ),
    ({**OPEN, "httpRoute.enabled": True}, "Behind which Gateway"),
    ({**OPEN, "httpRoute": {"backendCa": {"configMap": "ca"}}}, "httpRoute.backendCa needs"),
    (
        {
            "blobs.s3.bucket": "states",
            "tls": {"existingSecret": "tls", "clientCa": {"existingSecret": "ca"}},
            "ingress": {"enabled": True, "hosts": ["m.example"]},
        },
        "ingress and tls.clientCa exclude each other",
    ),
    (
        {**OPEN, "metrics.serviceMonitor.enabled": True, "metrics.podMonitor.enabled": True},
        "each replica would be collected twice",
    ),
    (
        {**OPEN, "tls.existingSecret": "tls", "metrics.serviceMonitor": {"enabled": True, "namespace": "monitoring"}},
        "Set metrics.tlsConfig",
    ),
    ({**OPEN, "cellList.namespaces": ["flights"]}, "cellList.namespaces needs cells"),
    ({**OPEN, "cells": 11, "fullnameOverride": "c" * 33}, "-cell-10 is no name for Services"),
    ({**OPEN, "cells": 2, "blobs.s3.prefix": "p" * 94}, "blobs.s3.prefix has at most 100 characters, with -cell-1"),
    ({**OPEN, "cells": 2, "ingress": {"enabled": True, "hosts": ["m.example"]}}, "ingress leads to one leader"),
    (
        {**OPEN, "cells": 2, "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}},
        "httpRoute leads to one leader",
    ),
    ({**OPEN, "podDisruptionBudget.minAvailable": 3}, "lets no node be emptied"),
    (
        {"auth.insecure": True, "blobs.s3.bucket": "states", "terminationGracePeriodSeconds": 35},
        "terminationGracePeriodSeconds must exceed",
    ),
]


@pytest.mark.parametrize(("settings", "said"), CHOICES, ids=[f"{said}-{n}" for n, (_, said) in enumerate(CHOICES)])
def test_a_choice_that_is_missing_or_contradicts_is_asked_for_in_words(
    helm: Helm, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(Refused) as refused:
        helm.render(None, settings)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"networkPolicy.enabled": False},
        {"networkPolicy.clients": [{"namespaceSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        {"pointers.kind": "zookeeper", "pointers.zookeeper.hosts": ["zk"]},
    ],
    ids=["no-policy", "addresses", "no-such-service"],
)
def test_a_service_for_the_outside_is_taken_where_nothing_shuts_it(helm: Helm, settings: dict[str, Any]) -> None:
    assert helm.render(SENSIBLE, {"leaderService.type": "LoadBalancer", **settings}).one("Deployment")


@pytest.mark.parametrize("release", ["r" * 32, "1st", "dotted.name"])
def test_a_name_that_would_have_to_be_cut_off_is_refused(helm: Helm, release: str) -> None:
    with pytest.raises(Refused, match="set fullnameOverride"):
        helm.render(SENSIBLE, release=release)
    assert helm.render(SENSIBLE, {"fullnameOverride": "short"}, release=release).one("Deployment", "short")


def test_what_the_list_begins_with_is_taken(helm: Helm) -> None:
    assert helm.render(SENSIBLE).one("Deployment")

"""Who may come in, and what replicas are let out to."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.helm import CHART, Helm, selects

pytestmark = pytest.mark.kubernetes

CI = CHART / "ci"
DNS = [53, 53, 5353, 5353]
SERVICE = [7070]


def ports(rule: dict[str, Any]) -> list[int]:
    return [each["port"] for each in rule["ports"]]


API = [443, 6443, 8443, 16443]
OUT = {"networkPolicy.egress.enabled": True}


@pytest.mark.parametrize(
    ("values_file", "expected"),
    [
        ("kubernetes-s3", [DNS, SERVICE, API, [443], [80]]),
        ("kubernetes-hdfs", [DNS, SERVICE, [*API, 8020, 9866]]),
        ("zookeeper-s3", [DNS, SERVICE, [2281, 8333]]),
        ("zookeeper-hdfs", [DNS, SERVICE, [2181, 8020, 9866]]),
    ],
)
def test_replicas_are_let_out_to_what_they_stand_on(helm: Helm, values_file: str, expected: list[list[int]]) -> None:
    path = CI / f"{values_file}-values.yaml"
    assert "egress" not in helm.render(path, {"networkPolicy.egress.enabled": False}).one("NetworkPolicy")["spec"]
    spec = helm.render(path, OUT).one("NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert [ports(rule) for rule in spec["egress"]] == expected


@pytest.mark.parametrize(
    ("settings", "restricted"),
    [
        ({}, True),
        ({"blobs.s3.endpointUrl": "https://s3.internal"}, False),
        ({"blobs.kind": "hdfs", "blobs.hdfs.authority": "namenode"}, False),
        ({"pointers.kind": "zookeeper", "pointers.zookeeper.hosts": ["zk"]}, False),
        ({"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]}, False),
        ({"extraEnvFrom": [{"configMapRef": {"name": "proxies"}}]}, False),
        ({"sidecars": [{"name": "proxy", "image": "proxy"}]}, False),
    ],
)
def test_by_itself_egress_is_narrowed_where_the_values_name_all_that_is_asked(
    helm: Helm, settings: dict[str, Any], restricted: bool
) -> None:
    spec = helm.render(CI / "kubernetes-s3-values.yaml", settings).one("NetworkPolicy")["spec"]
    assert ("Egress" in spec["policyTypes"], "egress" in spec) == (restricted, restricted)


def test_who_asks_whose_a_token_is_is_let_out_to_the_api_server(helm: Helm) -> None:
    settings = {**OUT, "auth.serviceAccounts.audience": "milepost"}
    rendered = helm.render(CI / "zookeeper-hdfs-values.yaml", settings)
    assert ports(rendered.one("NetworkPolicy")["spec"]["egress"][2]) == [*API, 2181, 8020, 9866]


def test_replicas_are_let_out_to_the_port_of_the_name_node(helm: Helm) -> None:
    settings = {**OUT, "blobs.hdfs.authority": "namenode:9000"}
    spec = helm.render(CI / "kubernetes-hdfs-values.yaml", settings).one("NetworkPolicy")["spec"]
    assert ports(spec["egress"][2]) == [*API, 8020, 9866, 9000]


def test_replicas_reach_each_other_whoever_the_clients_are(helm: Helm, values: Path) -> None:
    """One that does not lead tells the leader that it takes bytes, and what it took."""
    only_one = [{"podSelector": {"matchLabels": {"app": "flights"}}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}]
    settings = {"enabled": True, "egress.enabled": True, "clients": only_one}
    rendered = helm.render(values, {f"networkPolicy.{name}": value for name, value in settings.items()})
    spec = rendered.one("NetworkPolicy")["spec"]
    (rule,) = spec["ingress"]
    for peers, allowed in ((rule["from"], rule["ports"]), (spec["egress"][1]["to"], spec["egress"][1]["ports"])):
        chosen = [peer["podSelector"]["matchLabels"] for peer in peers if set(peer) == {"podSelector"}]
        assert any(selects(selector, rendered.pod["metadata"]["labels"]) for selector in chosen)
        assert allowed in ([{"port": "http"}], [{"port": 7070}])


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_roles_are_had_by_addresses_of_the_family_that_pods_have(helm: Helm, family: str) -> None:
    settings = {"networkPolicy.egress.enabled": True, "ipFamily": family}
    *_, rule = helm.render(CI / "kubernetes-s3-values.yaml", settings).one("NetworkPolicy")["spec"]["egress"]
    addresses = {ipaddress.ip_network(peer["ipBlock"]["cidr"]) for peer in rule["to"]}
    assert {str(each) for each in addresses if each.version == 4} == {"169.254.169.254/32", "169.254.170.23/32"}
    later = {str(each) for each in addresses if each.version == 6}
    assert later == ({"fd00:ec2::254/128", "fd00:ec2::23/128"} if family == "IPv6" else set())


def test_clients_are_let_in_at_one_port_and_so_is_the_test(helm: Helm) -> None:
    rendered = helm.render(CI / "full-values.yaml")
    (rule,) = rendered.one("NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"port": "http"}]
    *clients, prometheus, _, tried = rule["from"]
    assert prometheus["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}
    assert [set(client) for client in clients] == [{"namespaceSelector", "podSelector"}, {"ipBlock"}]
    assert selects(tried["podSelector"]["matchLabels"], rendered.one("Pod")["metadata"]["labels"])

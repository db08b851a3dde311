"""What a replica is started with means to the server what the values say."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from milepost_backends.hdfs.address import parse_address as hdfs_address
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.s3.address import S3Address
from milepost_backends.s3.address import parse_address as s3_address
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_server.__main__ import parser
from tests.deploy.helm import CHART, NAMESPACE, PAIRS, Helm, Rendered

pytestmark = pytest.mark.kubernetes

CI = CHART / "ci"
POD = {"POD_IP": "10.1.2.3", "POD_NAME": "milepost-7d5f8c-x2x4v"}


def read(rendered: Rendered) -> argparse.Namespace:
    """The settings as the server reads them from its environment."""
    return parser(rendered.environment(**POD)).parse_args([])


@pytest.mark.parametrize("pair", PAIRS, ids=lambda path: path.name.removesuffix("-values.yaml"))
def test_pods_listen_everywhere_and_advertise_their_own_address(helm: Helm, pair: Path) -> None:
    settings = read(helm.render(pair))
    assert settings.listen == "0.0.0.0:7070"
    assert settings.advertise == "http://10.1.2.3:7070"
    assert settings.token_file == "/etc/milepost/auth/tokens"
    assert not settings.insecure


def test_with_ipv6_the_address_stands_in_brackets(helm: Helm) -> None:
    rendered = helm.render(CI / "ipv6-values.yaml")
    settings = parser(rendered.environment(POD_IP="fd00::17", POD_NAME="any")).parse_args([])
    assert (settings.listen, settings.advertise) == ("[::]:7070", "http://[fd00::17]:7070")
    assert [service["spec"]["ipFamilies"] for service in rendered.of("Service")] == [["IPv6"], ["IPv6"]]


def test_pointers_in_kubernetes(helm: Helm) -> None:
    address = KubernetesAddress.parse(read(helm.render(CI / "kubernetes-s3-values.yaml")).pointers)
    assert (address.namespace, address.name, address.pod) == (NAMESPACE, "milepost", POD["POD_NAME"])
    assert address == KubernetesAddress(namespace=NAMESPACE, pod=POD["POD_NAME"])  # the defaults are the server's own


def test_pointers_in_kubernetes_with_all_their_values(helm: Helm) -> None:
    address = KubernetesAddress.parse(read(helm.render(CI / "full-values.yaml")).pointers)
    assert address == KubernetesAddress(
        namespace=NAMESPACE,
        name="checkpoints",
        bytes_per_second=2_000_000,
        most_bytes=33_554_432,
        lease_duration=6,
        renew_deadline=4,
        retry_period=0.5,
        pod=POD["POD_NAME"],
    )


@pytest.mark.parametrize(
    ("pair", "value", "bytes_"),
    [("kubernetes-s3", None, 64), ("zookeeper-s3", None, 4096), ("kubernetes-s3", 0, 0), ("zookeeper-s3", 1000, 1000)],
)
def test_few_bytes_are_kept_with_the_pointers(helm: Helm, pair: str, value: int | None, bytes_: int) -> None:
    values = {} if value is None else {"server.inlineBelow": value}
    assert read(helm.render(CI / f"{pair}-values.yaml", values)).inline_below == bytes_


def test_without_a_service_of_the_leader_no_pod_is_labelled(helm: Helm) -> None:
    rendered = helm.render(CI / "kubernetes-s3-values.yaml", {"leaderService.enabled": False})
    assert KubernetesAddress.parse(read(rendered).pointers).pod is None
    assert "POD_NAME" not in rendered.environment()


def test_pointers_in_zookeeper_by_tls(helm: Helm) -> None:
    address = ZooKeeperAddress.parse(read(helm.render(CI / "zookeeper-s3-values.yaml")).pointers)
    assert address.hosts == "zk-0.zk.infra:2281,zk-1.zk.infra:2281,zk-2.zk.infra:2281"
    assert address.root == "/production/milepost"
    assert address.credentials_file == Path("/etc/milepost/zookeeper/credentials")
    assert address.tls is not None
    assert address.tls.verify == "full"
    assert [address.tls.ca_file, address.tls.cert_file, address.tls.key_file] == [
        Path("/etc/milepost/zookeeper-tls") / name for name in ("ca.crt", "tls.crt", "tls.key")
    ]


def test_pointers_in_zookeeper_without_tls(helm: Helm) -> None:
    address = ZooKeeperAddress.parse(read(helm.render(CI / "zookeeper-hdfs-values.yaml")).pointers)
    assert address == ZooKeeperAddress(hosts="zk-0.hadoop:2181,zk-1.hadoop:2181,zk-2.hadoop:2181")


def test_states_on_aws(helm: Helm) -> None:
    address = s3_address(read(helm.render(CI / "kubernetes-s3-values.yaml")).blobs)
    assert address == S3Address("my-company-checkpoints", "milepost/", region="eu-central-1")


def test_states_on_another_s3(helm: Helm) -> None:
    rendered = helm.render(CI / "zookeeper-s3-values.yaml")
    assert s3_address(read(rendered).blobs) == S3Address(
        "checkpoints",
        endpoint_url="https://s3.storage.internal:8333",
        region="us-east-1",
        addressing_style="path",
    )
    from_secret = {each["name"]: each["valueFrom"] for each in rendered.container["env"] if "valueFrom" in each}
    assert {name for name in from_secret if name.startswith("AWS_")} == {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
    }
    assert from_secret["AWS_ACCESS_KEY_ID"]["secretKeyRef"] == {"name": "milepost-s3", "key": "AWS_ACCESS_KEY_ID"}


@pytest.mark.parametrize(
    "endpoint", ["http://s3:8333/path?", "https://s3/a&region=elsewhere", "https://s3/$(POD_IP)/%41+b"]
)
def test_an_endpoint_stays_one_option_whatever_is_in_it(helm: Helm, endpoint: str) -> None:
    values = {"blobs.s3.endpointUrl": endpoint.rstrip("?")}
    rendered = helm.render(CI / "kubernetes-s3-values.yaml", values)
    address = s3_address(read(rendered).blobs)
    assert (address.endpoint_url, address.region) == (endpoint.rstrip("?"), "eu-central-1")


def test_states_on_hdfs_with_a_configuration(helm: Helm) -> None:
    rendered = helm.render(CI / "kubernetes-hdfs-values.yaml")
    address = hdfs_address(read(rendered).blobs)
    assert (address.name_service, address.root, address.replication) == ("warehouse", "/apps/milepost", None)
    environment = rendered.environment()
    assert (environment["HADOOP_CONF_DIR"], environment["HADOOP_USER_NAME"]) == ("/etc/milepost/hadoop", "milepost")
    made = rendered.one("ConfigMap")
    assert set(made["data"]) == {"core-site.xml", "hdfs-site.xml"}
    (volume,) = [each for each in rendered.pod["spec"]["volumes"] if "configMap" in each]
    assert volume["configMap"]["name"] == made["metadata"]["name"]


def test_states_on_hdfs_with_the_configuration_of_somebody_else(helm: Helm) -> None:
    rendered = helm.render(CI / "zookeeper-hdfs-values.yaml")
    address = hdfs_address(read(rendered).blobs)
    assert (address.authority, address.root, address.replication) == ("namenode.hadoop:8020", "/milepost", 3)
    (volume,) = [each for each in rendered.pod["spec"]["volumes"] if "configMap" in each]
    assert volume["configMap"]["name"] == "hadoop-client"
    assert rendered.of("ConfigMap") == []


def test_large_numbers_and_the_rest(helm: Helm) -> None:
    settings = read(helm.render(CI / "full-values.yaml"))
    assert (settings.linger, settings.collect_after) == (120, 7200)
    assert (settings.max_state_bytes, settings.epochs_above) == (10_000_000_000, 1_000_000)
    assert settings.log_level == "warning"


def test_nothing_but_what_is_chosen_is_set(helm: Helm) -> None:
    rendered = helm.render(CI / "small-values.yaml")
    settings = read(rendered)
    assert settings.insecure
    for name in (service["metadata"]["name"] for service in rendered.of("Service")):
        assert {name, f"{name}.{NAMESPACE}.svc"} <= set(settings.hosts.split(","))
    assert settings.token_file is None
    assert (settings.max_state_bytes, settings.epochs_above) == (None, None)


def test_each_file_that_a_setting_names_is_mounted(helm: Helm, values: Path) -> None:
    rendered = helm.render(values)
    mounts = {Path(each["mountPath"]): each["name"] for each in rendered.container.get("volumeMounts", [])}
    volumes = {each["name"]: each for each in rendered.pod["spec"].get("volumes", [])}
    assert set(mounts.values()) == set(volumes)
    for path in files_of(rendered.environment(**POD)):
        (mount,) = [mount for mount in mounts if path.is_relative_to(mount)]
        items = volumes[mounts[mount]].get("secret", {}).get("items")
        assert items is None or str(path.relative_to(mount)) in [item["path"] for item in items]


def files_of(environment: dict[str, str]) -> list[Path]:
    """Every file and directory that these settings name."""
    tls = ("CERT", "KEY", "CA", "CLIENT_CA")
    names = ("MILEPOST_TOKEN_FILE", "HADOOP_CONF_DIR", *(f"MILEPOST_TLS_{name}" for name in tls))
    named = [environment.get(name) for name in names]
    found = [Path(name) for name in named if name]
    if environment["MILEPOST_POINTERS"].startswith("zookeeper"):
        address = ZooKeeperAddress.parse(environment["MILEPOST_POINTERS"])
        asked = [address.tls.ca_file, address.tls.cert_file, address.tls.key_file] if address.tls else []
        found += [path for path in (address.credentials_file, *asked) if path]
    return found

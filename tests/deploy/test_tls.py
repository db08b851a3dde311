"""Each address that is given out is one that the certificate holds, and everybody who is to trust it can."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from milepost_server.__main__ import advertised, parser
from milepost_server.http.tls.certificates import TlsFiles, read
from tests.deploy.helm import CHART, Helm, Rendered

pytestmark = pytest.mark.kubernetes

CI = CHART / "ci"
TLS, MTLS, PLAIN = (CI / f"{name}-values.yaml" for name in ("tls", "mtls", "kubernetes-s3"))
WHOLE = {"tls.existingSecret": "milepost-tls"}


def given_out(rendered: Rendered, address: str = "10.1.2.3") -> str:
    """What a replica with this address advertises."""
    return advertised(rendered.environment(POD_IP=address, POD_NAME="any")["MILEPOST_ADVERTISE"])


def shown_by(names: list[str], directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's context, where the server has a certificate for these names."""
    authority = trustme.CA()
    issued = authority.issue_cert(*names)
    issued.private_key_pem.write_to_path(directory / "tls.key")
    issued.cert_chain_pems[0].write_to_path(directory / "tls.crt")
    authority.cert_pem.write_to_path(directory / "ca.crt")
    contexts = read(TlsFiles(directory / "tls.crt", directory / "tls.key", None, directory / "ca.crt"))
    assert contexts.clients is not None
    return contexts.clients, contexts.replicas


def believes(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> bool:
    """Whether a client that asks for ``host`` goes on with the handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, answering, asking):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return False
    return True


@pytest.mark.parametrize(
    ("address", "family", "host"),
    [
        ("10.1.2.3", "IPv4", "10-1-2-3.milepost-replicas.data.svc"),
        ("fd00::1:17", "IPv6", "fd00--1-17.milepost-replicas.data.svc"),
    ],
)
def test_the_certificate_holds_every_address_that_is_given_out(
    helm: Helm, tmp_path: Path, address: str, family: str, host: str
) -> None:
    rendered = helm.render(TLS, {"ipFamily": family})
    assert given_out(rendered, address) == f"https://{host}:7070"
    names = rendered.one("Certificate")["spec"]["dnsNames"]
    server, client = shown_by(names, tmp_path)
    services = [each["metadata"]["name"] for each in rendered.of("Service")]
    assert sorted(services) == ["milepost", "milepost-leader", "milepost-replicas"]
    for name in ("milepost", "milepost-leader"):
        for asked in (name, f"{name}.data", f"{name}.data.svc", f"{name}.data.svc.cluster.local"):
            assert believes(server, client, asked), asked
    for asked in (host, f"{host}.cluster.local", "milepost.example.com"):
        assert believes(server, client, asked), asked
    for asked in (f"a.{host}", "10-1-2-3.other-replicas.data.svc", "milepost.other", address):
        assert not believes(server, client, asked), asked


def test_the_names_of_replicas_are_those_of_a_headless_service(helm: Helm) -> None:
    rendered = helm.render(TLS)
    service = rendered.one("Service", "-replicas")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    domain = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert given_out(rendered) == f"https://10-1-2-3.{domain}:7070"
    assert not any(each["metadata"]["name"].endswith("-replicas") for each in helm.render(PLAIN).of("Service"))


def test_other_dns_has_other_names(helm: Helm) -> None:
    rendered = helm.render(TLS, {"tls.replicaDomain": "data.pod.cluster.local", "clusterDomain": "corp.internal"})
    assert given_out(rendered) == "https://10-1-2-3.data.pod.cluster.local:7070"
    names = rendered.one("Certificate")["spec"]["dnsNames"]
    assert "*.data.pod.cluster.local" in names
    assert "milepost.data.svc.corp.internal" in names
    assert "milepost-replicas" not in str([each["metadata"]["name"] for each in rendered.of("Service")])


def settings(rendered: Rendered) -> Any:
    return parser(rendered.environment(POD_IP="10.1.2.3", POD_NAME="any")).parse_args([])


def test_the_server_is_told_of_its_files(helm: Helm) -> None:
    told = settings(helm.render(TLS))
    assert (told.tls_cert, told.tls_key) == ("/etc/milepost/tls/tls.crt", "/etc/milepost/tls/tls.key")
    assert (told.tls_ca, told.tls_client_ca) == ("/etc/milepost/tls/ca.crt", None)
    demanding = settings(helm.render(MTLS))
    assert demanding.tls_client_ca == "/etc/milepost/client-ca/clients.crt"
    assert (demanding.token_file, demanding.insecure) == (None, False)
    assert "milepost-leader.data" in demanding.hosts.split(",")
    public = settings(helm.render(PLAIN, {**WHOLE, "tls.caKey": ""}))
    assert (public.tls_cert, public.tls_ca) == ("/etc/milepost/tls/tls.crt", None)
    assert settings(helm.render(PLAIN)).tls_cert is None


@pytest.mark.parametrize("values", [TLS, MTLS], ids=["tls", "mtls"])
def test_new_certificates_reach_the_files_of_a_pod_that_runs(helm: Helm, values: Path) -> None:
    """Kubernetes changes what is mounted whole, and never what is mounted by subPath."""
    rendered = helm.render(values)
    assert not any("subPath" in mount for mount in rendered.container["volumeMounts"])
    secrets = [each["secret"]["secretName"] for each in rendered.pod["spec"]["volumes"] if "secret" in each]
    assert "milepost-tls" in secrets
    before = rendered.pod["metadata"]["annotations"]
    assert helm.render(values, {"rollout": "2"}).pod["metadata"]["annotations"] == {**before, "milepost/rollout": "2"}


def test_probes_services_and_prometheus_speak_it_too(helm: Helm) -> None:
    for values, scheme in ((TLS, "https"), (PLAIN, "http")):
        rendered = helm.render(values, {"metrics.podMonitor.enabled": True})
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert rendered.container[probe]["httpGet"].get("scheme", "HTTP").lower() == scheme
        protocols = {port["appProtocol"] for each in rendered.of("Service") for port in each["spec"]["ports"]}
        assert protocols == {scheme}
        (endpoint,) = rendered.one("PodMonitor")["spec"]["podMetricsEndpoints"]
        assert endpoint.get("scheme", "http") == scheme
    assert endpoint.get("tlsConfig") is None


@pytest.mark.parametrize("values", [TLS, MTLS], ids=["tls", "mtls"])
def test_prometheus_believes_the_certificate_by_the_name_of_the_service(
    helm: Helm, values: Path, tmp_path: Path
) -> None:
    rendered = helm.render(values)
    (monitor,) = [each["spec"] for kind in ("ServiceMonitor", "PodMonitor") for each in rendered.of(kind)]
    (endpoint,) = monitor.get("endpoints") or monitor["podMetricsEndpoints"]
    assert endpoint["tlsConfig"]["ca"] == {"secret": {"name": "milepost-tls", "key": "ca.crt"}}
    server, client = shown_by(helm.render(TLS).one("Certificate")["spec"]["dnsNames"], tmp_path)
    assert believes(server, client, endpoint["tlsConfig"]["serverName"])
    own = {"insecureSkipVerify": True}
    changed = helm.render(TLS, {"metrics.tlsConfig": own}).one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert changed[0]["tlsConfig"] == own


def test_a_gateway_believes_the_leader_by_the_name_of_its_service(helm: Helm, tmp_path: Path) -> None:
    rendered = helm.render(TLS)
    validation = rendered.one("BackendTLSPolicy")["spec"]["validation"]
    server, client = shown_by(rendered.one("Certificate")["spec"]["dnsNames"], tmp_path)
    assert believes(server, client, validation["hostname"])
    for kind in ("Ingress", "HTTPRoute"):
        assert "milepost-leader" in yaml.dump(rendered.one(kind)["spec"])
    assert "BackendTLSPolicy" not in helm.render(TLS, {"httpRoute.backendCa.configMap": ""}).kinds


def test_the_chart_s_own_test_has_no_key_unless_it_has_to_show_a_certificate(helm: Helm) -> None:
    for values, keys in ((TLS, ["ca.crt"]), (MTLS, ["ca.crt", "tls.crt", "tls.key"])):
        pod = helm.render(values).one("Pod")["spec"]
        (volume,) = [each for each in pod["volumes"] if each["name"] == "tls"]
        assert [item["key"] for item in volume["secret"]["items"]] == keys
        environment = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
        assert environment["MILEPOST_URL"].startswith("https://milepost.data:")
        named = {Path(path).name for path in environment.values() if path.startswith("/etc/milepost/tls/")}
        assert named == set(keys)


def test_accounts_show_tokens_for_the_audience(helm: Helm) -> None:
    rendered = helm.render(TLS)
    environment = rendered.environment(POD_IP="10.1.2.3")
    assert environment["MILEPOST_SERVICE_ACCOUNTS"] == "milepost"
    assert environment["MILEPOST_TOKEN_FILE"] == "/etc/milepost/auth/tokens", "whose lines say what they may do"
    binding = rendered.one("ClusterRoleBinding")
    assert binding["roleRef"]["name"] == "system:auth-delegator"
    account = rendered.pod["spec"]["serviceAccountName"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "data"}]
    (source,) = [
        source["serviceAccountToken"]
        for volume in rendered.one("Pod")["spec"]["volumes"]
        for source in volume.get("projected", {}).get("sources", [])
    ]
    assert source["audience"] == "milepost"
    zookeeper = helm.render(CI / "zookeeper-s3-values.yaml", {"auth.serviceAccounts.audience": "milepost"})
    assert zookeeper.pod["spec"]["automountServiceAccountToken"] is True, "it asks the API server whose tokens are"
    assert "ClusterRoleBinding" not in helm.render(TLS, {"rbac.create": False}).kinds
    assert "ClusterRoleBinding" not in helm.render(PLAIN).kinds

"""A release that speaks TLS, by names of the cluster's own DNS: a leader dies, and the certificate is renewed."""

from __future__ import annotations

import base64
import re
import time
from datetime import datetime, timedelta, timezone

import pytest
import trustme

from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.release import Release
from testbed.process import ProcessFailed

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

SECRET = "milepost-tls"
TAKEN_UP_SECONDS = 300.0
"""A kubelet looks at Secrets about once a minute."""

_ASK = """
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile="/etc/milepost/tls/ca.crt")
for url in sys.argv[1:]:
    with urllib.request.urlopen(url, context=context, timeout=30) as answer:
        print(answer.read().decode().replace(chr(10), ";"))
"""


class Issuer:
    """In the place of cert-manager: it puts certificates for a release into the Secret."""

    def __init__(self, node: KubernetesCluster, namespace: str) -> None:
        self._node = node
        self._namespace = namespace
        self._authority = trustme.CA()

    def issue(self, days: int) -> float:
        """Make a certificate, or a new one, that ends in so many days; return that moment as a Unix time."""
        ends = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=days)
        names = [
            f"milepost{which}{domain}"
            for which in ("", "-leader")
            for domain in ("", f".{self._namespace}", f".{self._namespace}.svc")
        ]
        issued = self._authority.issue_cert(*names, f"*.milepost-replicas.{self._namespace}.svc", not_after=ends)
        files = {
            "tls.crt": issued.cert_chain_pems[0].bytes(),
            "tls.key": issued.private_key_pem.bytes(),
            "ca.crt": self._authority.cert_pem.bytes(),
        }
        self._node.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/tls",
                "metadata": {"name": SECRET, "namespace": self._namespace},
                "data": {name: base64.b64encode(content).decode() for name, content in files.items()},
            }
        )
        return ends.timestamp()


def test_replicas_are_reached_by_name_and_take_up_a_new_certificate(node: KubernetesCluster, namespace: str) -> None:
    issuer = Issuer(node, namespace)
    first_end = issuer.issue(days=30)
    release = Release(node, namespace, {"tls": {"existingSecret": SECRET}})
    release.install("1")
    assert names_a_replica(release.test(), namespace), "clients were sent on to a name that the certificate holds"

    def asked(path: str) -> list[str]:
        """What each replica answers to another one that goes by its name."""
        urls = [
            f"https://{ip.replace('.', '-')}.milepost-replicas.{namespace}.svc:7070{path}" for ip in addresses(release)
        ]
        return release.leader().execute("python3", "-c", _ASK, *urls).splitlines()

    answers = asked("/readyz")
    assert len(answers) == 3
    assert all("ok" in answer for answer in answers), answers

    holder = release.holder()
    release.leader().delete_at_once()
    release.wait_for_other_holder(holder)
    assert names_a_replica(release.test(), namespace)

    replicas = sorted(release.pods())
    second_end = issuer.issue(days=90)
    end = time.monotonic() + TAKEN_UP_SECONDS
    while (seen := {expiry(answer) for answer in asked("/metrics")}) != {second_end}:
        assert seen <= {first_end, second_end}
        if time.monotonic() > end:
            raise ProcessFailed(f"not every replica uses the new certificate: {seen}")
        time.sleep(1)
    assert sorted(release.pods()) == replicas
    assert {restarts(release, name) for name in replicas} == {0}, "it was taken up without a restart"


def names_a_replica(output: str, namespace: str) -> bool:
    """Whether the chart's test found a leader by the name that is made of its address."""
    return re.search(rf"https://\d+-\d+-\d+-\d+\.milepost-replicas\.{namespace}\.svc:7070 leads", output) is not None


def addresses(release: Release) -> list[str]:
    return [release.pod(name).status["podIP"] for name in release.pods()]


def restarts(release: Release, name: str) -> int:
    (container,) = release.pod(name).status["containerStatuses"]
    count: int = container["restartCount"]
    return count


def expiry(metrics: str) -> float:
    found = re.search(r"milepost_tls_certificate_expiry_seconds ([\d.e+]+)", metrics)
    assert found is not None, metrics
    return float(found[1])

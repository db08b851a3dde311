"""The configuration of a Pod, whose files are put where they can be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes.config import incluster_config

from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.client import KubernetesClient
from testbed.kubernetes.keys import Keys
from tests.backends.kubernetes.test_client import ANSWERS, BREAKS_OFF, kubeconfig, serving
from tests.support.network.scripted_server import ScriptedServer

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys")


@pytest.fixture
def in_a_pod(keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """What a Pod has, but for the port of the API server; for more to be set."""
    token = tmp_path / "token"
    token.write_text("of-the-account")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(keys.authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
async def test_inside_of_a_cluster_a_proxy_is_not_on_the_way_to_the_api_server(
    keys: Keys, in_a_pod: pytest.MonkeyPatch, name: str
) -> None:
    """One that the environment names is for what lies outside, such as S3."""
    with ScriptedServer([ANSWERS] * 2, keys.server_context()) as api, ScriptedServer([BREAKS_OFF] * 2) as proxy:
        in_a_pod.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
        in_a_pod.setenv(name, f"http://127.0.0.1:{proxy.port}")
        client = KubernetesClient(KubernetesAddress("team"), "tests")
        await client.open()
        for _ in range(2):  # each looks at the account's token anew
            assert (await client.request("GET", "/api/x")).done
        await client.close()
    assert proxy.seen == []
    assert len(api.seen) == 2
    assert api.seen[0].headers["authorization"].lower() == "bearer of-the-account"


async def test_outside_of_a_cluster_the_environment_names_the_proxy(
    tmp_path: Path, in_a_pod: pytest.MonkeyPatch
) -> None:
    async with serving(ANSWERS) as proxy:
        in_a_pod.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        client = KubernetesClient(KubernetesAddress(kubeconfig=kubeconfig(tmp_path, 1)), "tests")
        await client.open()
        assert (await client.request("GET", "/api/x")).done
        await client.close()
    assert [request.path for request in proxy.seen] == ["http://127.0.0.1:1/api/x"]

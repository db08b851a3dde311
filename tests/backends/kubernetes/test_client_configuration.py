"""The configuration of a Pod, whose files are put where they can be written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from kubernetes.config import incluster_config

from milepost_backends.kubernetes import client as client_module
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.client import Credentials, KubernetesClient
from milepost_backends.kubernetes.errors import NotSent
from testbed.kubernetes.keys import Keys
from tests.backends.kubernetes.test_client import ANSWERS, BREAKS_OFF, kubeconfig, opened, serving
from tests.support.network.scripted_server import ScriptedServer
from tests.support.waiting import until

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


class Plugin:
    """A program that gives a token which is over at once, and hangs while it is told to."""

    def __init__(self, directory: Path) -> None:
        self._hangs = directory / "hangs"
        self._calls = directory / "calls"
        program = directory / "plugin"
        program.write_text(
            "#!/bin/sh\n"
            f"echo x >> {self._calls}\n"
            f"while [ -e {self._hangs} ]; do sleep 0.05; done\n"
            'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
            ' "status": {"expirationTimestamp": "2020-01-01T00:00:00Z", "token": "secret"}}\'\n'
        )
        program.chmod(0o755)
        self.user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}}

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().split())

    def hang(self) -> None:
        self._hangs.touch()

    def go_on(self) -> None:
        self._hangs.unlink(missing_ok=True)


async def test_a_plugin_that_hangs_ends_each_request_unsent_and_is_found_well_again(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    async with (
        serving(ANSWERS) as server,
        opened(kubeconfig(tmp_path, server.port, plugin.user), timeout=0.3) as client,
    ):
        plugin.hang()
        before = plugin.calls

        async def is_called() -> bool:
            return plugin.calls > before

        for _ in range(6):  # more than there are threads
            with pytest.raises(NotSent, match="no credentials"):
                await client.request("PUT", "/api/late", body=b"{}")
        await until(is_called)
        assert plugin.calls == before + 1  # one for all
        plugin.go_on()

        async def well() -> bool:
            try:
                return (await client.request("GET", "/api/x")).done
            except NotSent:
                return False

        await until(well)
        assert not any("/api/late" in request.path for request in server.seen)


async def test_opening_has_an_end_though_a_plugin_hangs(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.hang()
    try:
        client = KubernetesClient(
            KubernetesAddress(kubeconfig=kubeconfig(tmp_path, 1, plugin.user)), "tests", opening=0.3
        )
        async with asyncio.timeout(20):
            with pytest.raises(NotSent, match="cannot configure"):
                await client.open()
            plugin.go_on()

            async def opens() -> bool:
                try:
                    await client.open()
                except NotSent:
                    return False
                return True

            await until(opens)
        await client.close()
    finally:
        plugin.go_on()


class Hanging:
    """A configuration that waits for an event the first time, and then gives a token."""

    def __init__(self) -> None:
        self.asked = 0
        self.free = Event()

    def auth_settings(self) -> dict[str, dict[str, str]]:
        self.asked += 1
        if self.asked == 1:
            self.free.wait(60.0)
        return {"BearerToken": {"key": "authorization", "value": f"Bearer {self.asked}"}}


async def test_one_that_hangs_for_long_is_given_up_for_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(client_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    configuration = Hanging()
    credentials = Credentials(configuration, hung_after=0.2)

    async def is_asked() -> bool:
        return configuration.asked > 0

    try:
        with pytest.raises(NotSent):
            await asyncio.to_thread(credentials.header, now[0] + 0.1)
        with pytest.raises(NotSent):
            await asyncio.to_thread(credentials.header, now[0])
        await until(is_asked)
        assert configuration.asked == 1
        now[0] = 0.2
        header = await asyncio.to_thread(credentials.header, now[0] + 20.0)
        assert header == {"authorization": "Bearer 2"}
    finally:
        configuration.free.set()

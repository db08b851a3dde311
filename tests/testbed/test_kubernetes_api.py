"""The Kubernetes API as a part: it keeps its data, and goes by the Roles it is told."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from testbed.kubernetes_api import KubernetesApi
from testbed.process import ProcessFailed
from tests.contracts.places import Services
from tests.support.kubernetes import running, shared_api

pytestmark = pytest.mark.kubernetes

READ_CONFIGMAPS = ({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},)


def status(api: KubernetesApi, kubeconfig: Path, method: str, path: str, body: object = None) -> int:
    """How a request is answered that is sent as the kubeconfig says."""
    config = json.loads(kubeconfig.read_text())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    token = config["users"][0]["user"]["token"]
    connection = http.client.HTTPSConnection(server.netloc, context=api.keys.trusting_context(), timeout=30)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_an_account_may_do_what_its_role_says_in_its_namespace_alone(services: Services) -> None:
    api = shared_api(services)
    namespace, other = api.namespace(), api.namespace()
    kubeconfig = api.service_account(namespace, READ_CONFIGMAPS)
    assert status(api, kubeconfig, "GET", f"/api/v1/namespaces/{namespace}/configmaps") == 200
    assert status(api, kubeconfig, "POST", f"/api/v1/namespaces/{namespace}/configmaps", {}) == 403
    assert status(api, kubeconfig, "GET", f"/api/v1/namespaces/{namespace}/secrets") == 403
    assert status(api, kubeconfig, "GET", f"/api/v1/namespaces/{other}/configmaps") == 403


def test_keys_are_nobody_elses_to_read(services: Services) -> None:
    api = shared_api(services)
    for path in (api.admin_kubeconfig, api.keys.admin_key, api.keys.token_key, api.service_account(api.namespace())):
        assert path.stat().st_mode & 0o077 == 0


def test_it_keeps_its_data_and_its_port_through_the_end_of_both_processes(tmp_path: Path) -> None:
    with running(tmp_path) as api:
        namespace = api.namespace()
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        api.admin.ask("POST", path, {"metadata": {"name": "kept"}, "data": {"key": "value"}})
        url = api.url
        api.server.kill()
        api.etcd.kill()
        assert not api.ready()
        api.start()
        assert api.url == url
        assert api.admin.ask("GET", f"{path}/kept")["data"] == {"key": "value"}
        api.etcd.pause()
        api.server.wait_until(lambda: not api.ready(), "does not notice that etcd stands still")
        api.etcd.resume()
        api.server.wait_until(api.ready, "is not ready again")
    assert not api.server.running
    assert not api.etcd.running


def test_a_refusal_is_told_with_its_reason(services: Services) -> None:
    api = shared_api(services)
    with pytest.raises(ProcessFailed, match="is answered 404"):
        api.admin.ask("GET", "/api/v1/namespaces/no-such-namespace")

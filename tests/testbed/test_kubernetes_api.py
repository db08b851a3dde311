"""The Kubernetes API of the tests goes by the Roles it is given, and says when it refuses.

If it let everybody do everything, the tests of rights would pass without testing.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from testbed.kubernetes.api import KubernetesEndpoint
from testbed.process import ProcessFailed
from tests.contracts.places import Services
from tests.support.servers.kubernetes import shared_api

pytestmark = pytest.mark.kubernetes

READ_CONFIGMAPS = ({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},)


def status(api: KubernetesEndpoint, kubeconfig: Path, method: str, path: str, body: object = None) -> int:
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


def test_a_refusal_gives_its_reason(services: Services) -> None:
    api = shared_api(services)
    with pytest.raises(ProcessFailed, match="is answered 404"):
        api.admin.ask("GET", "/api/v1/namespaces/no-such-namespace")

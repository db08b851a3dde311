"""Sends plain requests to a Kubernetes API as an administrator, and sets up namespaces and accounts with them."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from testbed.process import DEADLINE_SECONDS, ProcessFailed

Rules = Sequence[Mapping[str, Any]]
"""The rules of a Role, as they stand in the Role itself."""

_LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}

NEEDED: Rules = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "update", "delete"]},
    {**_LEASES, "verbs": ["create"]},
    {**_LEASES, "resourceNames": ["milepost"], "verbs": ["get", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
)
"""What a deployment named ``milepost`` has to be allowed; the chart's Role allows the same.

No rule can name the ConfigMaps and Pods, whose names nobody knows beforehand, nor an object that is only to be made.
"""

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"
_TOKEN_SECONDS = 24 * 3600


class Admin:
    """Requests to the API server on ``port`` of 127.0.0.1."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port = port
        self._context = context

    @classmethod
    def of(cls, kubeconfig: Path) -> Admin:
        """Make an `Admin` from a kubeconfig that `Keys` wrote for an administrator."""
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        context.load_cert_chain(user["client-certificate"], user["client-key"])
        port = urlsplit(cluster["server"]).port
        assert port is not None
        return cls(port, context)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        timeout: float = 30.0,
    ) -> tuple[int, Any]:
        """Send a request; return the status of the answer, and its content: decoded if it is JSON, else as text.

        Raises `ProcessFailed` if there is no answer.
        """
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=timeout)
        try:
            sent = None if body is None else json.dumps(body).encode()
            connection.request(method, path, sent, {"Content-Type": content_type})
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ProcessFailed(f"{method} {path} gets no answer: {error!r}") from error
        finally:
            connection.close()
        try:
            return answer.status, json.loads(content)
        except ValueError:
            return answer.status, content.decode(errors="replace")

    def ask(self, method: str, path: str, body: object = None, *, content_type: str = "application/json") -> Any:
        """Send a request that must succeed, and return the content of the answer. Raises `ProcessFailed`."""
        status, content = self.request(method, path, body, content_type=content_type)
        if not 200 <= status < 300:
            raise ProcessFailed(f"{method} {path} is answered {status}: {content}")
        return content

    def answers(self, path: str = "/readyz") -> bool:
        """Return whether GET ``path`` is answered 200 now."""
        try:
            return self.request("GET", path, timeout=5.0)[0] == 200
        except ProcessFailed:
            return False

    def namespace(self, prefix: str = "test") -> str:
        """Make a namespace that nobody else uses, and return its name."""
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def service_account(self, namespace: str, rules: Rules, name: str = "milepost") -> str:
        """Make an account that may do what the ``rules`` say, in its namespace; return a token that lasts for a day.

        The API server takes a moment to follow new rules; this waits until it does.
        """
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        metadata = {"metadata": {"name": name}}
        self.account(namespace, name)
        self.ask("POST", f"{_RBAC}/{namespace}/roles", {**metadata, "rules": [dict(rule) for rule in rules]})
        self.ask("POST", f"{_RBAC}/{namespace}/rolebindings", {**metadata, "roleRef": role, "subjects": [subject]})
        token = self.token(namespace, name)
        self._wait_for_rules(f"system:serviceaccount:{namespace}:{name}", namespace, rules)
        return token

    def account(self, namespace: str, name: str) -> str:
        """Make an account without any rights, and return its path."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.ask("POST", accounts, {"metadata": {"name": name}})
        return f"{accounts}/{name}"

    def token(self, namespace: str, name: str, audience: str | None = None, seconds: int = _TOKEN_SECONDS) -> str:
        """Return a token of an account, by TokenRequest, for ``audience`` or for the API server itself."""
        spec = {"expirationSeconds": seconds, "audiences": [] if audience is None else [audience]}
        asked = self.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", {"spec": spec})
        token: str = asked["status"]["token"]
        return token

    def grant_review_of_tokens(self, namespace: str, name: str = "milepost") -> None:
        """Let an account ask whose tokens are, by the ClusterRole that is there for that; wait until it may."""
        cluster_role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        binding = {"metadata": {"name": f"{namespace}-{name}"}, "roleRef": cluster_role, "subjects": [subject]}
        self.ask("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        asked = {"group": "authentication.k8s.io", "resource": "tokenreviews", "verb": "create"}
        end = time.monotonic() + DEADLINE_SECONDS
        while not self.may(f"system:serviceaccount:{namespace}:{name}", asked):
            if time.monotonic() > end:
                raise ProcessFailed(f"the API server does not let {name} of {namespace} review tokens")
            time.sleep(0.02)

    def _wait_for_rules(self, user: str, namespace: str, rules: Rules) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        asked = [
            {"namespace": namespace, "group": rule["apiGroups"][0], "resource": rule["resources"][0], "verb": verb}
            for rule in rules
            for verb in rule["verbs"][:1]
            if not rule.get("resourceNames")
        ]
        while not all(self.may(user, attributes) for attributes in asked):
            if time.monotonic() > end:
                raise ProcessFailed(f"the API server does not go by the Role of {user}")
            time.sleep(0.02)

    def may(self, user: str, attributes: Mapping[str, str | None]) -> bool:
        """Return whether the API server lets ``user`` do now what ``attributes`` say, as in a SubjectAccessReview."""
        review = {"spec": {"user": user, "resourceAttributes": attributes}}
        answer = self.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

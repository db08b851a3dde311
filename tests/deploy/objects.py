"""Objects of a chart before a real API server: would it take them, and does it?"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.kubernetes.admin import APPLY_PATCH, MERGE_PATCH
from testbed.kubernetes.api import KubernetesApi
from testbed.process import DEADLINE_SECONDS
from tests.deploy.helm import Manifest

_APPLIED = "?fieldManager=tests&fieldValidation=Strict&force=true"
_DRY = f"{_APPLIED}&dryRun=All"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


class Objects:
    """One API server, seen as who may do everything."""

    def __init__(self, api: KubernetesApi) -> None:
        self.api = api
        self._plural: dict[tuple[str, str], tuple[str, bool]] = {}

    def define(self, definitions: Sequence[Manifest]) -> None:
        """Make custom resources, and wait until they are served."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for definition in definitions:
            self.api.admin.ask("POST", path, definition)
        end = time.monotonic() + DEADLINE_SECONDS
        for definition in definitions:
            spec = definition["spec"]
            (version, *_) = [each["name"] for each in spec["versions"] if each["served"]]
            listed = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
            while not self.api.admin.answers(listed):
                assert time.monotonic() < end, f"{listed} is not served"
                time.sleep(0.05)

    def namespace(self, labels: Mapping[str, str] | None = None) -> str:
        """A new one, with labels."""
        name = self.api.namespace("chart")
        if labels:
            change = {"metadata": {"labels": dict(labels)}}
            self.api.admin.ask("PATCH", f"/api/v1/namespaces/{name}", change, content_type=MERGE_PATCH)
        return name

    def would_take(self, manifest: Manifest) -> tuple[int, Any]:
        """The answer to a server-side apply that changes nothing, and takes no field that it does not know."""
        path = f"{self._collection(manifest)}/{manifest['metadata']['name']}{_DRY}"
        return self.api.admin.request("PATCH", path, manifest, content_type=APPLY_PATCH)

    def apply(self, manifest: Manifest) -> Any:
        """Make an object, or change the one that is there."""
        path = f"{self._collection(manifest)}/{manifest['metadata']['name']}{_APPLIED}"
        return self.api.admin.ask("PATCH", path, manifest, content_type=APPLY_PATCH)

    def would_run(self, pod: Manifest, namespace: str) -> tuple[int, Any]:
        """The answer to a request to make such a Pod, by all rules of admission; none is made."""
        made = copy.deepcopy(pod)
        made["metadata"] = {"name": "tried", "labels": made["metadata"].get("labels", {})}
        account = made["spec"].setdefault("serviceAccountName", "default")
        self.api.admin.request(
            "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": account}}
        )
        path = f"/api/v1/namespaces/{namespace}/pods{_DRY}"
        return self.api.admin.request("POST", path, {"apiVersion": "v1", "kind": "Pod", **made})

    def _collection(self, manifest: Manifest) -> str:
        version, kind = manifest["apiVersion"], manifest["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._plural:
            for each in self.api.admin.ask("GET", root)["resources"]:
                if "/" not in each["name"]:
                    self._plural[version, each["kind"]] = each["name"], each["namespaced"]
        plural, namespaced = self._plural[version, kind]
        return f"{root}/namespaces/{manifest['metadata']['namespace']}/{plural}" if namespaced else f"{root}/{plural}"

"""The Kubernetes API that a run of the tests shares, and namespaces in it that nobody else uses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from milepost_backends.kubernetes.address import KubernetesAddress
from testbed.kubernetes.admin import MERGE_PATCH, NEEDED, Admin, Rules
from testbed.kubernetes.api import KubernetesApi, KubernetesEndpoint
from testbed.kubernetes.programs import ProgramAbsent, find_program
from testbed.process import DEADLINE_SECONDS
from tests.contracts.places import Services

NAME = "milepost"
LONG = {"lease_duration": "60", "renew_deadline": "40", "retry_period": "2"}
"""For who does not wait for the end of a lease: a machine that is busy loses none by it."""
SHORT = {"lease_duration": "3", "renew_deadline": "2", "retry_period": "0.5"}
"""For who waits for it."""
MIDDLING = {"lease_duration": "6", "renew_deadline": "4", "retry_period": "0.5"}
"""For who waits for it, but may be paused for a while before that."""


@dataclass(frozen=True)
class Site:
    """A namespace of its own, and an account that may do there what the rules say."""

    api: KubernetesEndpoint
    namespace: str
    kubeconfig: Path

    def url(self, *, pod: str | None = None, name: str = NAME, **options: str) -> str:
        """What ``--pointers`` takes."""
        wears = {} if pod is None else {"pod": pod}
        return f"kubernetes://{self.namespace}/{name}?" + urlencode(
            {"kubeconfig": str(self.kubeconfig), **options, **wears}
        )

    def address(self, *, pod: str | None = None, name: str = NAME, **options: str) -> KubernetesAddress:
        """The same, read."""
        return KubernetesAddress.parse(self.url(pod=pod, name=name, **options))

    def lease(self, name: str = NAME) -> dict[str, Any] | None:
        """The Lease as it stands there, or None."""
        status, content = self.api.admin.request("GET", self.lease_path(name))
        assert status in (200, 404), content
        return dict(content) if status == 200 else None

    def edit_lease(self, change: object, name: str = NAME) -> None:
        """Merge ``change`` into it, behind everybody's back."""
        self.api.admin.ask("PATCH", self.lease_path(name), change, content_type=MERGE_PATCH)

    def may_review_tokens(self) -> None:
        """Let the account ask whose tokens are."""
        self.api.admin.grant_review_of_tokens(self.namespace)

    def lease_path(self, name: str = NAME) -> str:
        """Of the Lease, in the API."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases" + (f"/{name}" if name else "")


@contextmanager
def running(directory: Path) -> Iterator[KubernetesApi]:
    """An API of one's own, ready; it is gone after the block."""
    require_programs()
    with KubernetesApi(directory) as api:
        yield api.start()


def require_programs() -> None:
    """Skip the test where this machine has no Kubernetes API to run."""
    try:
        for name in ("etcd", "kube-apiserver"):
            find_program(name)
    except ProgramAbsent as absent:
        pytest.skip(f"no Kubernetes API: {absent}")


def shared_api(services: Services) -> KubernetesEndpoint:
    """The one API of the run; who wants to stop one starts another."""
    require_programs()
    return KubernetesEndpoint(*services.of_run("kubernetes", _of_run))


@contextmanager
def _of_run(directory: Path) -> Iterator[tuple[Path, int]]:
    with KubernetesApi(directory) as api:
        yield directory, api.start().port


def site(api: KubernetesEndpoint, rules: Rules = NEEDED, *, server: str | None = None) -> Site:
    """A new namespace there. ``server`` is the URL of what stands before the API, if anything does."""
    namespace = api.namespace()
    return Site(api, namespace, api.service_account(namespace, rules, server=server))


def fresh_url(tmp_path: Path, services: Services) -> str:
    """An address at which nothing is yet."""
    del tmp_path
    return site(shared_api(services)).url(**LONG)


def fresh_short_url(tmp_path: Path, services: Services) -> str:
    """The same with a lease that ends soon."""
    del tmp_path
    return site(shared_api(services)).url(**MIDDLING)


@contextmanager
def without_config_maps(url: str) -> Iterator[None]:
    """The account of a site may do nothing with ConfigMaps within the block, so that its journals are gone for it."""
    address = KubernetesAddress.parse(url)
    assert address.kubeconfig is not None
    admin = Admin.of(address.kubeconfig.parent.parent / "admin.conf")
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{address.namespace}/roles/{NAME}"
    rules = admin.ask("GET", path)["rules"]
    left = [rule for rule in rules if rule["resources"] != ["configmaps"]]
    _set_rules(admin, address, path, left, may=False)
    try:
        yield
    finally:
        _set_rules(admin, address, path, rules, may=True)


def _set_rules(admin: Admin, address: KubernetesAddress, path: str, rules: Rules, *, may: bool) -> None:
    admin.ask("PATCH", path, {"rules": list(rules)}, content_type=MERGE_PATCH)
    asked = {"namespace": address.namespace, "group": "", "resource": "configmaps", "verb": "update"}
    user = f"system:serviceaccount:{address.namespace}:{NAME}"
    end = time.monotonic() + DEADLINE_SECONDS
    while admin.may(user, asked) is not may:
        assert time.monotonic() < end, "the API server does not go by the new Role"
        time.sleep(0.02)

"""What the Role leaves open, the admission policy closes: a replica changes what is its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from milepost_backends.kubernetes.address import INSTANCE, LEADER, ROLE
from milepost_backends.kubernetes.client import KubernetesClient
from milepost_backends.kubernetes.election.election import KubernetesElection
from testbed.kubernetes.admin import MERGE_PATCH, NEEDED
from tests.deploy.helm import CHART, Helm, Rendered
from tests.deploy.objects import Objects
from tests.deploy.test_role import keep_a_journal
from tests.support.servers.kubernetes import NAME, SHORT, Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

VALUES = CHART / "ci" / "kubernetes-s3-values.yaml"
DEADLINE = 60.0
REPLICA = {INSTANCE: NAME, "app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "server", "team": "data"}
OWN, OTHER, STRANGER = "milepost-own", "milepost-other", "database"


def make_pod(objects: Objects, namespace: str, name: str, labels: dict[str, str]) -> str:
    """Make a Pod, which nothing runs, and return its uid."""
    pod = {
        "metadata": {"name": name, "labels": labels, "annotations": {"team": "data"}},
        "spec": {"serviceAccountName": NAME, "containers": [{"name": "milepost", "image": "milepost"}]},
    }
    uid: str = objects.api.admin.ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod)["metadata"]["uid"]
    return uid


def narrowed(helm: Helm, objects: Objects, cells: int = 0) -> tuple[Site, Rendered]:
    """A namespace with the policy in force, and a replica's account whose token is bound to its Pod, as Pods' are. With
    ``cells``, it is a replica of the first.
    """
    api = objects.api
    namespace = objects.namespace()
    rendered = helm.render(VALUES, {"cells": cells}, release=NAME, namespace=namespace)
    rendered = rendered.cell("cell-0") if cells else rendered
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        objects.apply(rendered.one(kind))
    api.service_account(namespace, NEEDED)
    uid = make_pod(objects, namespace, OWN, REPLICA)
    make_pod(objects, namespace, OTHER, {**REPLICA, ROLE: LEADER})
    make_pod(objects, namespace, STRANGER, {INSTANCE: "database", ROLE: LEADER})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": OWN, "uid": uid}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{NAME}/token"
    asked = api.admin.ask("POST", path, {"spec": {"expirationSeconds": 3600, "boundObjectRef": bound}})
    directory = api.admin_kubeconfig.parent / "bound"
    kubeconfig = api.keys.token_kubeconfig(
        directory / f"{namespace}.conf", api.url, asked["status"]["token"], namespace
    )
    return Site(api, namespace, kubeconfig), rendered


@asynccontextmanager
async def asking(site: Site) -> AsyncIterator[KubernetesClient]:
    """The API, asked as a replica; the policy is in force within the block."""
    client = KubernetesClient(site.address(**SHORT), "tests")
    await client.open()
    try:

        async def in_force() -> bool:
            answer = await client.request("POST", f"{config_maps(site)}?dryRun=All", body=config_map("other-root-1"))
            return answer.status in (403, 422)

        await until(in_force, DEADLINE)
        yield client
    finally:
        await client.close()


def config_maps(site: Site) -> str:
    return f"/api/v1/namespaces/{site.namespace}/configmaps"


def config_map(name: str) -> bytes:
    return msgspec.json.encode({"metadata": {"name": name}, "data": {"key": "value"}})


async def patch(client: KubernetesClient, site: Site, pod: str, change: dict[str, Any]) -> tuple[int, str]:
    """Change a Pod as a replica; return the status, and what it says."""
    path = f"/api/v1/namespaces/{site.namespace}/pods/{pod}"
    answer = await client.request("PATCH", path, body=msgspec.json.encode(change), content_type=MERGE_PATCH)
    return answer.status, "" if answer.done else str(msgspec.json.decode(answer.body)["message"])


def labelled(**labels: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": {name.replace("__", "/"): value for name, value in labels.items()}}}


LEADING = {"metadata": {"labels": {ROLE: LEADER}}}
NOT_LEADING = {"metadata": {"labels": {ROLE: None}}}

ALLOWED: list[tuple[str, dict[str, Any]]] = [(OWN, LEADING), (OWN, NOT_LEADING), (OTHER, NOT_LEADING)]
DENIED: list[tuple[str, dict[str, Any], str]] = [
    (STRANGER, NOT_LEADING, "labels no Pods but its replicas"),
    (OTHER, {"metadata": {"labels": {ROLE: "follower"}}}, "calls nobody the leader but itself"),
    (OWN, {"metadata": {"labels": {ROLE: "king"}}}, "calls nobody the leader but itself"),
    (OWN, labelled(team="finance"), "changes no label of a Pod but milepost/role"),
    (OWN, labelled(team=None), "changes no label of a Pod but milepost/role"),
    (OWN, labelled(added="x"), "changes no label of a Pod but milepost/role"),
    (OTHER, {"metadata": {"annotations": {"team": "finance"}}}, "changes nothing of a Pod but its label"),
    (OTHER, {"metadata": {"finalizers": ["example.com/kept"]}}, "changes nothing of a Pod but its label"),
    (
        OTHER,
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": OWN, "uid": "1"}]}},
        "changes nothing of a Pod but its label",
    ),
    (
        OTHER,
        {"spec": {"containers": [{"name": "milepost", "image": "another"}]}},
        "changes nothing of a Pod but its label",
    ),
]


async def test_a_replica_changes_one_label_of_replicas_and_nothing_else_of_any_pod(
    helm: Helm, objects: Objects
) -> None:
    site, _ = narrowed(helm, objects)
    async with asking(site) as client:
        for pod, change, said in DENIED:
            status, message = await patch(client, site, pod, change)
            assert (status, said in message) == (422, True), (pod, change, status, message)
        for pod, change in ALLOWED:
            assert await patch(client, site, pod, change) == (200, ""), (pod, change)
        status, message = await patch(client, site, OTHER, LEADING)
        assert (status, "calls nobody the leader but itself" in message) == (422, True), "it took that one's label off"


@pytest.mark.parametrize("cells", [0, 2])
async def test_a_replica_writes_its_own_config_maps_alone(helm: Helm, objects: Objects, cells: int) -> None:
    """Those of the other cells are of others, and so is the list of cells, though their names begin alike."""
    site, _ = narrowed(helm, objects, cells)
    path = config_maps(site)
    others = ("settings", f"{NAME}x-root-1", *((f"{NAME}-cell-1-root-1", f"{NAME}-cells") if cells else ()))
    for name in others:
        site.api.admin.ask("POST", path, {"metadata": {"name": name}, "data": {"key": "value"}})
    async with asking(site) as client:
        assert (await client.request("POST", path, body=config_map("others"))).status == 422
        for name in others:
            changed = await client.request("PUT", f"{path}/{name}", body=config_map(name))
            deleted = await client.request("DELETE", f"{path}/{name}")
            assert (changed.status, deleted.status) == (422, 422)
            assert b"no ConfigMaps but its own" in changed.body
            assert (await client.request("GET", f"{path}/{name}")).done
    await keep_a_journal(site)


async def test_the_election_labels_its_pod_under_the_policy(
    helm: Helm, objects: Objects, caplog: pytest.LogCaptureFixture
) -> None:
    """Another Pod still has the label, as one that was paused while it led."""
    site, _ = narrowed(helm, objects)
    query = f"?labelSelector={INSTANCE}%3D{NAME}%2C{ROLE}%3D{LEADER}"

    async def moved() -> bool:
        found = site.api.admin.ask("GET", f"/api/v1/namespaces/{site.namespace}/pods{query}")["items"]
        return [each["metadata"]["name"] for each in found] == [OWN]

    async with asking(site):
        election = KubernetesElection(site.address(pod=OWN, **SHORT), "http://10.0.0.1:7070")
        await election.open()
        try:
            leadership = await election.campaign()
            await until(moved, DEADLINE)
            await asyncio.wait_for(leadership.resign(), DEADLINE)
        finally:
            await election.close()
    assert "cannot" not in caplog.text


async def test_it_binds_nobody_else(helm: Helm, objects: Objects) -> None:
    """Neither an administrator, nor the same account's name in another namespace."""
    site, rendered = narrowed(helm, objects)
    elsewhere = objects.namespace()
    kubeconfig = site.api.service_account(elsewhere, NEEDED)
    other = Site(site.api, elsewhere, kubeconfig)
    async with asking(site):
        site.api.admin.ask("POST", config_maps(site), {"metadata": {"name": "anything"}})
        client = KubernetesClient(other.address(**SHORT), "tests")
        await client.open()
        try:
            assert (await client.request("POST", config_maps(other), body=config_map("anything"))).done
        finally:
            await client.close()
    policy = rendered.one("ValidatingAdmissionPolicy")
    assert policy["metadata"]["name"] == f"{NAME}.{site.namespace}", "two releases of one name do not meet"
    assert policy["spec"]["failurePolicy"] == "Fail"


def test_it_is_there_where_there_is_something_to_narrow(helm: Helm) -> None:
    kinds = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert kinds <= helm.render(VALUES).kinds
    assert not kinds & helm.render(VALUES, {"rbac.admissionPolicy": False}).kinds
    assert not kinds & helm.render(CHART / "ci" / "zookeeper-s3-values.yaml").kinds
    shared = {"serviceAccount.create": False}
    assert not kinds & helm.render(VALUES, shared).kinds, "other Pods may be of the account default too"
    assert kinds <= helm.render(VALUES, {**shared, "serviceAccount.name": "given"}).kinds
    unlabelled = helm.render(VALUES, {"leaderService.enabled": False}).one("ValidatingAdmissionPolicy")["spec"]
    assert [rule["resources"] for rule in unlabelled["matchConstraints"]["resourceRules"]] == [["configmaps"]]

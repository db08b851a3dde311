"""Cells are deployments side by side in one release, and the first of them is what the release is without cells."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

import pytest

from milepost.core.cell_list import CellList
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.s3.address import parse_address as s3_address
from milepost_server.__main__ import parser
from tests.deploy.helm import CHART, NAMESPACE, Helm, Manifest, Rendered, chosen, selects
from tests.deploy.metrics import matched, selectors
from tests.deploy.objects import Objects

pytestmark = pytest.mark.kubernetes

CI = CHART / "ci"
PLAIN, FULL, TLS = (CI / f"{name}-values.yaml" for name in ("kubernetes-s3", "full", "tls"))
NAMES = ["cell-0", "cell-1", "cell-2", "cell-3"]
FOUR = {"cells": 4}
NO_WAY_IN: Mapping[str, object] = {"ingress.enabled": False, "httpRoute.enabled": False}
"""Both lead to one leader."""
OF_A_CELL = {"MILEPOST_CELL", "MILEPOST_CELLS", "MILEPOST_CELL_ADDRESSES"}


def name_of(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def by_name(rendered: Rendered) -> dict[tuple[str, str, str], Manifest]:
    found = {name_of(each): each for each in rendered.manifests}
    assert len(found) == len(rendered.manifests), "no object is there twice"
    return found


def _take_out(holder: Manifest, member: str, name: str) -> None:
    kept = [each for each in holder.pop(member, []) if each["name"] != name]
    holder.update({member: kept} if kept else {})


def without_cell(manifest: Manifest) -> Manifest:
    """The same object without what says of which cell it is."""
    plain = copy.deepcopy(manifest)
    plain["metadata"]["labels"].pop("milepost/cell", None)
    match plain["kind"]:
        case "Deployment":
            template = plain["spec"]["template"]
            template["metadata"]["labels"].pop("milepost/cell", None)
            for container in template["spec"]["containers"]:
                container["env"] = [each for each in container.get("env", []) if each["name"] not in OF_A_CELL]
                _take_out(container, "volumeMounts", "cells")
            _take_out(template["spec"], "volumes", "cells")
        case "NetworkPolicy":
            for rule in (*plain["spec"]["ingress"], *plain["spec"].get("egress", [])):
                for peers in (rule[way] for way in ("from", "to") if way in rule):
                    peers[:] = [each for each in peers if "matchExpressions" not in each.get("podSelector", {})]
        case "PrometheusRule":
            for rule in plain["spec"]["groups"][0]["rules"]:
                rule.get("labels", {}).pop("cell", None)
        case "ServiceMonitor" | "PodMonitor":
            (endpoint,) = plain["spec"].get("endpoints") or plain["spec"]["podMetricsEndpoints"]
            kept = [each for each in endpoint.pop("relabelings", []) if each["targetLabel"] != "cell"]
            endpoint.update({"relabelings": kept} if kept else {})
        case "ValidatingAdmissionPolicy":
            plain["spec"]["validations"][0].pop("expression")
    return plain


def test_without_cells_nothing_of_them_is_there(helm: Helm, values: Path) -> None:
    rendered = helm.render(values)
    assert rendered.manifests == helm.render(values, {"cells": 0}).manifests
    assert not OF_A_CELL & set(rendered.environment())
    for manifest in rendered.manifests:
        assert "milepost/cell" not in str(manifest), name_of(manifest)
        assert not manifest["metadata"]["name"].endswith("-cells")
        assert "cell" not in str(manifest["spec"].get("endpoints") if "spec" in manifest else "")


@pytest.mark.parametrize("cells", [1, 4])
def test_the_first_cell_is_what_was_there_without_cells(helm: Helm, values: Path, cells: int) -> None:
    """So that an upgrade moves no pointers, no states and no Pods of it, and clients reach it as before."""
    before = by_name(helm.render(values, NO_WAY_IN))
    after = by_name(helm.render(values, {**NO_WAY_IN, "cells": cells}))
    assert before.keys() <= after.keys()
    for name, manifest in before.items():
        if name[0] != "Pod":
            assert without_cell(after[name]) == without_cell(manifest), name


def test_a_cell_more_leaves_the_others_where_they_are(helm: Helm) -> None:
    before, after = (by_name(helm.render(FULL, {"cells": cells})) for cells in (3, 4))
    changed = {name[0] for name, manifest in before.items() if after[name] != manifest}
    assert changed == {"ConfigMap", "Deployment"}, "which have the list"
    for name, manifest in before.items():
        if name[0] == "Deployment":
            assert without_cell(after[name]) == without_cell(manifest)
    assert {manifest["metadata"]["labels"].get("milepost/cell") for manifest in before.values()} >= set(NAMES[:3])


def test_each_cell_has_all_that_a_deployment_has(helm: Helm, values: Path) -> None:
    rendered = helm.render(values, {**NO_WAY_IN, **FOUR})
    by_name(rendered)
    first = rendered.cell("cell-0")
    suffixed = [each["metadata"]["name"] for each in rendered.manifests if "-cell-" in each["metadata"]["name"]]
    assert len(suffixed) == 3 * len(first.manifests)
    for number, name in enumerate(NAMES):
        one = rendered.cell(name)
        assert [each["kind"] for each in one.manifests] == [each["kind"] for each in first.manifests]
        assert all(("-cell-" in each["metadata"]["name"]) is (number > 0) for each in one.manifests)
    once = {each["kind"] for each in rendered.manifests if "milepost/cell" not in each["metadata"]["labels"]}
    assert once == {"ConfigMap", "Pod"}, "the list, what has no cell of its own, and the test"


def test_each_cell_is_told_its_name_and_has_its_own_place(helm: Helm) -> None:
    rendered = helm.render(PLAIN, FOUR)
    pointers, blobs = [], []
    for number, name in enumerate(NAMES):
        environment = rendered.cell(name).environment(POD_IP="10.1.2.3", POD_NAME="any")
        settings = parser(environment).parse_args([])
        assert (settings.cell, settings.cells.split(",")) == (name, NAMES)
        address = KubernetesAddress.parse(settings.pointers)
        pods = rendered.cell(name).pod["metadata"]["labels"]
        assert address.name == pods["app.kubernetes.io/instance"], "by which the election finds the Pods"
        assert pods["milepost/cell"] == name
        pointers.append((address.namespace, address.name))
        blobs.append((s3_address(settings.blobs).bucket, s3_address(settings.blobs).prefix))
        assert (number == 0) is (
            settings.pointers == helm.render(PLAIN).environment(**environment)["MILEPOST_POINTERS"]
        )
    assert pointers[0] == (NAMESPACE, "milepost")
    assert len(set(pointers)) == len(set(blobs)) == 4
    for prefix in (prefix for _, prefix in blobs):
        assert [other for _, other in blobs if other.startswith(prefix)] == [prefix], "none lies below another one"


@pytest.mark.parametrize(
    ("values_file", "settings", "places"),
    [
        ("kubernetes-s3", {"blobs.s3.prefix": ""}, ["s3://my-company-checkpoints", "/cell-1"]),
        ("zookeeper-hdfs", {}, ["hdfs://namenode.hadoop:8020/milepost", "-cell-1"]),
    ],
)
def test_states_lie_beside_those_of_the_first_cell(
    helm: Helm, values_file: str, settings: dict[str, object], places: list[str]
) -> None:
    rendered = helm.render(CI / f"{values_file}-values.yaml", {**settings, "cells": 2})
    found = [rendered.cell(name).environment()["MILEPOST_BLOBS"].partition("?")[0] for name in NAMES[:2]]
    assert found == [places[0], "".join(places)]


def test_pointers_in_zookeeper_lie_beside_those_of_the_first_cell(helm: Helm) -> None:
    rendered = helm.render(CI / "zookeeper-hdfs-values.yaml", {"cells": 2})
    found = [rendered.cell(name).environment()["MILEPOST_POINTERS"].partition("?")[0] for name in NAMES[:2]]
    assert found[1] == f"{found[0]}-cell-1"


@pytest.mark.parametrize("values_file", [PLAIN, FULL, TLS], ids=["plain", "full", "tls"])
def test_what_selects_pods_selects_those_of_its_cell_alone(helm: Helm, values_file: Path) -> None:
    rendered = helm.render(values_file, {**NO_WAY_IN, **FOUR})
    leading = {"milepost/role": "leader"}
    pods = [(name, {**rendered.cell(name).pod["metadata"]["labels"], **leading}) for name in NAMES]
    services = [(name, each["metadata"]["labels"]) for name in NAMES for each in rendered.cell(name).of("Service")]
    for name in NAMES:
        kinds = set()
        for manifest in rendered.cell(name).manifests:
            spec = manifest.get("spec", {})
            selector = spec.get("podSelector") or spec.get("selector") or {}
            among = services if manifest["kind"] == "ServiceMonitor" else pods
            if labels := selector.get("matchLabels", selector):
                assert {cell for cell, found in among if selects(labels, found)} == {name}, manifest["kind"]
                kinds.add(manifest["kind"])
        assert kinds >= {"Service", "Deployment", "NetworkPolicy", "PodDisruptionBudget"}


def test_clients_get_one_list_of_all_cells(helm: Helm) -> None:
    """As the SDK reads it: the addresses are those of Services that are there, and the names those of the cells."""
    for values_file, suffix, scheme in ((PLAIN, "-leader", "http"), (TLS, "-leader", "https")):
        rendered = helm.render(values_file, {**NO_WAY_IN, **FOUR, "cellList.namespaces": ["flights", NAMESPACE]})
        lists = [each for each in rendered.of("ConfigMap") if each["metadata"]["name"] == "milepost-cells"]
        assert [each["metadata"]["namespace"] for each in lists] == [NAMESPACE, "flights"]
        (text,) = {each["data"]["cells"] for each in lists}
        assert len(text.splitlines()) == 4
        cells = CellList.parse(text)
        assert list(cells.names) == rendered.cell("cell-1").environment()["MILEPOST_CELLS"].split(",")
        for name, addresses in cells.cells.items():
            service = rendered.cell(name).one("Service", suffix)["metadata"]["name"]
            assert addresses == (f"{scheme}://{service}.{NAMESPACE}:7070",)


def test_replicas_read_that_list_and_are_let_through_to_the_other_cells(helm: Helm, values: Path) -> None:
    """For their consoles."""
    policies = {"networkPolicy.enabled": True, "networkPolicy.egress.enabled": True}
    rendered = helm.render(values, {**NO_WAY_IN, **policies, "cells": 2, "cellList.namespaces": ["flights"]})
    own = rendered.of("Deployment")[0]["metadata"]["namespace"]
    lists = [each for each in rendered.of("ConfigMap") if each["metadata"]["namespace"] == own]
    for name in NAMES[:2]:
        cell = rendered.cell(name)
        place = Path(cell.environment()["MILEPOST_CELL_ADDRESSES"].removeprefix("@"))
        (container,) = (each for each in cell.pod["spec"]["containers"] if each["name"] == "milepost")
        (mount,) = (each for each in container["volumeMounts"] if each["mountPath"] == str(place.parent))
        assert "subPath" not in mount, "else it would not change"
        (volume,) = (each for each in cell.pod["spec"]["volumes"] if each["name"] == mount["name"])
        (listed,) = (each for each in lists if each["metadata"]["name"] == volume["configMap"]["name"])
        assert place.name in listed["data"]
        spec = cell.one("NetworkPolicy")["spec"]
        for peers in (spec["ingress"][0]["from"], spec["egress"][1]["to"]):
            selectors = [each["podSelector"] for each in peers if "podSelector" in each]
            for other in NAMES[:2]:
                labels = rendered.cell(other).pod["metadata"]["labels"]
                assert any(
                    selects(each["matchLabels"], labels)
                    and all(wanted["key"] in labels for wanted in each.get("matchExpressions", []))
                    for each in selectors
                )


def test_without_a_service_of_the_leader_they_ask_that_of_all_replicas(helm: Helm) -> None:
    rendered = helm.render(CI / "zookeeper-s3-values.yaml", {"cells": 2})
    cells = CellList.parse(rendered.one("ConfigMap", "-cells")["data"]["cells"])
    assert cells.cells["cell-1"] == (f"http://milepost-cell-1.{NAMESPACE}:7070",)
    assert {each["metadata"]["name"] for each in rendered.of("Service")} == {"milepost", "milepost-cell-1"}


def test_an_address_that_is_given_is_that_of_the_first_cell(helm: Helm) -> None:
    """Two Services cannot have the same, and those outside who know it go on."""
    given = {"service.clusterIP": "10.96.0.7", "leaderService.loadBalancerIP": "192.0.2.7"}
    rendered = helm.render(FULL, {**given, "cells": 2})
    for name, address, port in (("cell-0", "10.96.0.7", [30070]), ("cell-1", None, [None])):
        service = next(each for each in rendered.cell(name).of("Service") if "leader" not in each["metadata"]["name"])
        assert service["spec"].get("clusterIP") == address
        assert [each.get("nodePort") for each in service["spec"]["ports"]] == port
        leader = rendered.cell(name).one("Service", "-leader")["spec"]
        assert ("loadBalancerIP" in leader, leader["type"]) == (name == "cell-0", "LoadBalancer")


def test_a_given_account_has_one_beside_it_for_each_cell(helm: Helm) -> None:
    """The policy lets each write the ConfigMaps of its own cell."""
    for create in (True, False):
        rendered = helm.render(PLAIN, {"cells": 2, "serviceAccount": {"create": create, "name": "given"}})
        found = [rendered.cell(name).pod["spec"]["serviceAccountName"] for name in NAMES[:2]]
        assert found == ["given", "given-cell-1"]
        for name, account in zip(NAMES, found, strict=False):
            (subject,) = rendered.cell(name).one("RoleBinding")["subjects"]
            assert subject["name"] == account
            (condition,) = rendered.cell(name).one("ValidatingAdmissionPolicy")["spec"]["matchConditions"]
            assert condition["expression"].endswith(f':{account}"')


def test_metrics_and_alerts_name_the_cell(helm: Helm) -> None:
    rendered = helm.render(FULL, FOUR)
    for name in NAMES:
        one = rendered.cell(name)
        (endpoint,) = one.one("ServiceMonitor")["spec"]["endpoints"]
        added, *others = endpoint["relabelings"]
        assert added == {"targetLabel": "cell", "replacement": name}
        assert [each["targetLabel"] for each in others] == ["cluster"], "which the values add"
        (group,) = one.one("PrometheusRule")["spec"]["groups"]
        own = [rule for rule in group["rules"] if rule["alert"] != "MilepostManyHandles"]
        assert (len(group["rules"]) > len(own)) is (name == "cell-0"), "a rule of the values' own is there once"
        job = one.pod["metadata"]["labels"]["app.kubernetes.io/instance"]
        for rule in own:
            assert (rule["labels"]["cell"], rule["labels"]["team"]) == (name, "data")
            assert {matched(each)["job"] for each in selectors(rule["expr"])} == {job}


def test_the_test_asks_all_cells_and_is_let_in_by_each(helm: Helm) -> None:
    rendered = helm.render(PLAIN, FOUR)
    pod = rendered.one("Pod")
    (container,) = pod["spec"]["containers"]
    (url,) = [each["value"] for each in container["env"] if each["name"] == "MILEPOST_URL"]
    (mount,) = [each for each in container["volumeMounts"] if url.startswith(f"@{each['mountPath']}/")]
    (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == mount["name"]]
    assert url.removeprefix(f"@{mount['mountPath']}/") in rendered.one("ConfigMap", "-cells")["data"]
    assert volume["configMap"]["name"] == rendered.one("ConfigMap", "-cells")["metadata"]["name"]
    for name in NAMES:
        (rule,) = rendered.cell(name).one("NetworkPolicy")["spec"]["ingress"]
        peers = [each["podSelector"]["matchLabels"] for each in rule["from"] if set(each) == {"podSelector"}]
        assert any(selects(labels, pod["metadata"]["labels"]) for labels in peers), name


@pytest.mark.parametrize("values_file", [FULL, TLS], ids=["full", "tls"])
def test_helm_and_a_real_api_server_take_them(helm: Helm, objects: Objects, values_file: Path) -> None:
    settings: dict[str, object] = {**NO_WAY_IN, "cells": 2}
    printed = helm.run("lint", "--strict", CHART, *chosen(values_file, settings))
    assert "[WARNING]" not in printed
    rendered = helm.render(values_file, settings, namespace=objects.namespace())
    answers = {f"{each['kind']} {each['metadata']['name']}": objects.would_take(each) for each in rendered.manifests}
    assert {name: content for name, (status, content) in answers.items() if status != 201} == {}

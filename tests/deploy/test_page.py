"""What docs/kubernetes.md says of the chart is so."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path
from string import Template

import pytest
import yaml

import milepost
import milepost.spark
from milepost.core.calls.calls import ATTEMPT_TIMEOUT
from milepost.core.cell_list import CellList
from milepost_backends.kubernetes.address import labels_of, selector
from milepost_backends.kubernetes.configmaps.objects import ConfigMapLayout
from tests.deploy.helm import CHART, Helm, Refused, Rendered, chosen

pytestmark = pytest.mark.kubernetes

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
FILES = {"values.yaml", "values.schema.json", "ca.crt", "tls.crt", "tls.key"}
START = (ROOT / "docs" / "start" / "kubernetes.md").read_text(encoding="utf-8")
REPLACED = {"REGISTRY": "registry.example/team", "BUCKET": "own-bucket", "AWS_REGION": "eu-west-1"}
VALUES = CHART / "ci" / "full-values.yaml"
CI_VALUES = yaml.safe_load(VALUES.read_text(encoding="utf-8"))


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that begins like this, without its heading."""
    table = PAGE.split(heading)[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_each_verb_of_the_role_has_its_reason_and_no_other(helm: Helm) -> None:
    rules = helm.render(VALUES).one("Role")["rules"]
    granted = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    listed = [(resource, verb) for resource, verb, _ in rows("| resource | verb | why |")]
    assert set(listed) == granted
    assert len(listed) == len(set(listed))


def test_each_alert_is_explained_and_no_other(helm: Helm) -> None:
    (group,) = helm.render(VALUES).one("PrometheusRule")["spec"]["groups"]
    listed = {alert.strip("`") for alert, *_ in rows("| alert | it means |")}
    (added,) = CI_VALUES["metrics"]["prometheusRule"]["extraRules"]
    assert listed == {rule["alert"] for rule in group["rules"]} - {added["alert"]}


def installation(text: str) -> list[list[str]]:
    """The words of each command that installs the chart, as a shell with the page's variables sees them."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if " install milepost " in block]
    commands = block.replace("\\\n", " ").replace("&&", "\n").splitlines()
    return [shlex.split(Template(command).safe_substitute(REPLACED)) for command in commands]


TEXTS = pytest.mark.parametrize("text", [PAGE, START], ids=["kubernetes.md", "start/kubernetes.md"])


@TEXTS
def test_the_installation_that_is_shown_is_one_that_the_chart_takes(helm: Helm, text: str) -> None:
    (flags,) = [words[words.index("install") + 1 :] for words in installation(text) if words[0] == "helm"]
    release, chart, *values = flags
    helm.run("template", release, ROOT / chart, *values)
    with pytest.raises(Refused, match="How do clients show who they are"):
        helm.run("template", release, ROOT / chart, *values, "--set", "auth.existingSecret=")


def test_the_role_that_is_shown_takes_the_place_of_the_secret(helm: Helm) -> None:
    (flags,) = re.findall(r"`(--set 'serviceAccount[^`]*)`", PAGE)
    values = ["--set=auth.insecure=true", "--set=blobs.s3.bucket=my-bucket", *shlex.split(flags)]
    rendered = Rendered(list(yaml.safe_load_all(helm.run("template", "milepost", CHART, *values))))
    assert rendered.one("ServiceAccount")["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/milepost"
    }


@TEXTS
def test_the_installation_that_is_shown_has_an_image_to_pull_and_the_secrets_it_names(helm: Helm, text: str) -> None:
    commands = installation(text)
    (values,) = [words[words.index("install") + 3 :] for words in commands if words[0] == "helm"]
    container = Rendered(list(yaml.safe_load_all(helm.run("template", "milepost", CHART, *values)))).container
    assert [words[2] for words in commands if words[:2] == ["docker", "push"]] == [container["image"]]
    made = {
        (words[words.index("generic") + 1], word.split("=")[1])
        for words in commands
        for word in words
        if word.startswith("--from-literal")
    }
    references = [each["valueFrom"]["secretKeyRef"] for each in container["env"] if "secretKeyRef" in str(each)]
    named = {(each["name"], each["key"]) for each in references if not each.get("optional")}
    assert made == named | {("milepost-tokens", "tokens")}
    assert len(named) == 2


def test_sessions_that_are_shown_outlive_a_leader_that_dies(helm: Helm) -> None:
    """The SDK renews each third, so at the worst two thirds are left for the lease and for what follows it."""
    lease = yaml.safe_load(helm.run("show", "values", CHART))["pointers"]["kubernetes"]
    shown = [float(ttl) for ttl in re.findall(r"\bttl=(\d+)", PAGE)]
    assert len(shown) == 3
    for ttl in shown:
        assert ttl >= 3 * lease["leaseDuration"]
        assert ttl * 2 / 3 > lease["leaseDuration"] + lease["retryPeriod"] + ATTEMPT_TIMEOUT * 2


def test_a_lease_for_the_sdks_own_ttl_is_one_that_the_chart_takes(helm: Helm) -> None:
    listed = dict(re.findall(r"`(leaseDuration|renewDeadline|retryPeriod): (\d+)`", PAGE))
    lease = {f"pointers.kubernetes.{name}": int(seconds) for name, seconds in listed.items()}
    assert helm.render(VALUES, lease).one("Deployment")
    default = inspect.signature(milepost.Client.session).parameters["ttl"].default
    assert default == inspect.signature(milepost.spark.lead).parameters["ttl"].default
    assert default == 3 * lease["pointers.kubernetes.leaseDuration"]


def test_what_is_to_be_removed_at_last_is_what_milepost_makes() -> None:
    assert f"delete configmaps,leases -l {selector(labels_of('milepost'))}\n" in PAGE
    assert f"delete configmap {ConfigMapLayout('milepost', 'root').deployment_marker}\n" in PAGE


def test_values_that_are_named_exist(helm: Helm) -> None:
    known = helm.run("show", "values", CHART)
    named = set(re.findall(r"`((?:[a-z]\w*\.)+[a-z]\w*)[=`]", PAGE)) - FILES
    paths = {name for name in named if name.split(".")[0] in re.findall(r"^(\w+):", known, re.MULTILINE)}
    assert len(paths) > 10
    for path in paths:
        for part in path.split("."):
            assert re.search(rf"^ *{part}:", known, re.MULTILINE), path


def test_the_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", PAGE)
    assert len(links) > 4
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_the_names_that_are_listed_are_those_of_the_certificate(helm: Helm) -> None:
    release = helm.render(CHART / "ci" / "tls-values.yaml", {"tls.certManager.dnsNames": []}, namespace="milepost")
    listed = PAGE.split("| name | which clients use it |")[1].split("\n\n")[0]
    names = set(release.one("Certificate")["spec"]["dnsNames"])
    said = set(re.findall(r"`((?:\*\.)?milepost[a-z.-]*)`", listed))
    said |= {name.replace("milepost", "milepost-leader", 1) for name in said if not name.startswith(("*", "milepost-"))}
    said |= {f"{name}.cluster.local" for name in said if name.startswith("*")}
    assert said - {"milepost-leader"} == names - {"milepost-leader"}


def upgraded(helm: Helm, value: str) -> Rendered:
    """What becomes of a release by the upgrade that is shown with this value."""
    (block,) = re.findall(rf"```sh\n(helm [^`]*{re.escape(value)}[^`]*)```", PAGE)
    words = shlex.split(block.replace("\\\n", " "))
    flags = words.index("--reuse-values") + 1
    assert words[flags - 4 : flags] == ["upgrade", "milepost", "deploy/chart", "--reuse-values"]
    given = ["--namespace", "milepost", *chosen(CHART / "ci" / "kubernetes-s3-values.yaml"), *words[flags:]]
    printed = helm.run("template", "milepost", CHART, *given)
    return Rendered([each for each in yaml.safe_load_all(printed) if each])


def test_the_upgrade_to_tls_that_is_shown_is_one_that_the_chart_takes(helm: Helm) -> None:
    rendered = upgraded(helm, "certManager.enabled")
    assert rendered.one("Certificate")["spec"]["issuerRef"]["name"] == "internal"


def test_the_list_of_cells_that_a_driver_is_shown_to_mount_is_made_by_the_upgrade_that_is_shown(helm: Helm) -> None:
    rendered = upgraded(helm, "--set cells=")
    made = {each["metadata"]["namespace"]: each for each in rendered.of("ConfigMap")}
    assert made.keys() == {"milepost", "flights"}
    (block,) = (block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "MILEPOST_URL" in block)
    spec = yaml.safe_load(block)["spec"]
    ((mount,), (variable,)) = (spec["containers"][0][name] for name in ("volumeMounts", "env"))
    (volume,) = spec["volumes"]
    assert (volume["name"], volume["configMap"]["name"]) == (mount["name"], made["flights"]["metadata"]["name"])
    place, _, key = variable["value"].rpartition("/")
    assert place == f"@{mount['mountPath']}"
    assert list(CellList.parse(made["flights"]["data"][key]).names) == ["cell-0", "cell-1", "cell-2"]


def test_the_quota_that_is_shown_has_room_for_the_chart(helm: Helm) -> None:
    (quota,) = [
        yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "Quota" in block
    ]
    rendered = helm.render(CHART / "ci" / "tls-values.yaml")
    replicas = rendered.one("Deployment")["spec"]["replicas"] + 1
    hard = quota["spec"]["hard"]
    assert int(hard["pods"]) >= replicas + 1
    assert int(hard["services"]) >= len(rendered.of("Service"))
    resources = [rendered.container["resources"]] * replicas
    resources += [each["resources"] for pod in rendered.of("Pod") for each in pod["spec"]["containers"]]
    for name in ("requests.cpu", "requests.memory", "limits.memory"):
        part, _, kind = name.partition(".")
        assert sum(amount(each[part][kind]) for each in resources) <= amount(hard[name]), name


def amount(text: str) -> float:
    """A quantity of Kubernetes as a number."""
    units = {"m": 0.001, "Mi": 2**20, "Gi": 2**30}
    for unit, factor in units.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text)

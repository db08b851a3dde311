"""The pages of reference say what the programs say: flags, operations, metrics."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from milepost.wire import Code
from milepost_server.__main__ import parser
from testbed.server import ServerProcess
from tests.docs import pasted
from tests.docs.blocks import ROOT, blocks_of
from tests.support.servers.certificates import Certificates

pytestmark = pytest.mark.later

SERVER = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
REST = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
WALK = next(block for block in blocks_of(ROOT / "docs" / "rest.md") if block.held == "run")


def test_the_table_of_flags_has_the_order_the_defaults_and_the_words_of_help() -> None:
    """A meaning may go on behind the words of ``--help``."""
    table = SERVER.split("| flag | default | meaning |\n|---|---|---|\n")[1].split("\n\n")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()]
    actions = [action for action in parser({})._actions if action.dest not in ("help", "version")]
    assert [flag.split()[0].strip("`") for flag, _, _ in rows] == [action.option_strings[-1] for action in actions]
    for action, (_, default, meaning) in zip(actions, rows, strict=True):
        assert meaning.replace("`", "").replace(r"\|", "|").strip().startswith(action.help or "-"), action.dest
        assert str(action.default or "") in default, action.dest


def test_the_codes_that_the_operations_name_exist() -> None:
    table = REST.split("| operation of the contract |")[1].split("\n\n")[0]
    named = set(re.findall(r"\d{3} `([a-z-]+)`", table))
    assert named
    assert named <= {code.value for code in Code}


def test_each_operation_of_the_contract_has_its_line() -> None:
    lines = re.findall(r'curl -LsS --fail-with-body(?: -X ([A-Z]+)| (-I))? "?\$M/stores/\$ID/([a-z/]+)', WALK.text)
    shown = {(method or ("HEAD" if head else "GET"), path) for method, head, path in lines}
    assert shown >= {
        *((method, "handles/latest") for method in ("POST", "PUT", "HEAD", "DELETE")),
        *((method, "handles") for method in ("GET", "DELETE")),
        *((method, path) for method in ("POST", "DELETE") for path in ("handles/latest/lock", "locks")),
        ("GET", "handles/latest/state"),
        ("POST", "epoch"),
    }


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("program", pasted.PROGRAMS)
def test_each_operation_answers_what_the_page_says(
    asked: Callable[[str], str], tmp_path: Path, program: str, role: str
) -> None:
    ran = pasted.run(pasted.at(WALK.text, asked(role)), tmp_path, program)
    assert ran.returncode == 0, ran.stderr
    for part in ('"name":"latest"', "batch 8", '"epoch":1', '{"removed":true}', '{"cleared":0}'):
        assert part in ran.stdout
    assert re.search(r'"locks":\["readme-\d+-\d+"\]', ran.stdout)


@pytest.mark.parametrize("program", pasted.PROGRAMS)
def test_a_line_that_is_refused_fails_and_shows_the_problem(
    server: ServerProcess, tmp_path: Path, program: str
) -> None:
    first, *lines = pasted.at(WALK.text, server.url).splitlines()
    assert first.startswith("#")
    variables = [line for line in lines if not line.startswith("curl")][:2]
    (adds,) = [line for line in lines if "-X POST $M/stores/$ID/handles/latest -H" in line]
    ran = pasted.run("\n".join([*variables, adds]), tmp_path, program)  # without a session before
    assert ran.returncode == 22
    assert '"type":"urn:milepost:session-unknown"' in ran.stdout


def test_the_table_of_metrics_has_each_with_its_words(tmp_path: Path) -> None:
    """The server speaks TLS, so that there is something to measure of its certificate, and is a cell."""
    certificates = Certificates(tmp_path)
    trusting = certificates.trusting()
    with (
        ServerProcess(tmp_path, "--cell", "a", "--cells", "a", *certificates.flags, tls=trusting) as server,
        httpx.Client(verify=trusting, timeout=60.0) as client,
    ):
        server.start()
        client.get(f"{server.url}/livez").raise_for_status()
        text = client.get(f"{server.url}/metrics").text
    measured = {
        family.name + ("_total" if family.type == "counter" else ""): (family.type, family.documentation)
        for family in text_string_to_metric_families(text)
        if not family.name.endswith("_created")  # when a counter began, which the library adds by itself
    }
    listed = re.findall(r"^\| `(milepost_\w+)` \| (\w+) \| (.*) \|$", METRICS, re.MULTILINE)
    assert {name: (kind, words) for name, kind, words in listed} == measured

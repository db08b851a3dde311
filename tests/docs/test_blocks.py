"""Every block of code in the documentation is run by a test: by this one, as pasted, or by the one that its mark names.

Those of this file run on a leader and on a follower, and so do these of others: the uploads of docs/rest.md
(tests/direct) and the replicas of docs/replicas.md and docs/tls.md (test_servers.py). The rest has no follower to ask.
What Spark does by Hadoop's client needs the leader's address (docs/kubernetes.md says so), and ``milepost run`` is told
all replicas. Embedded servers, which docs/damage.md, docs/backup.md and docs/hdfs.md start, are alone. Installing,
building, the recipes for contributors, ``make``, kubectl and helm ask no replica.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
import tomllib
import yaml

from milepost.cli.app import root_command
from milepost_server.__main__ import parser
from tests.docs import pasted
from tests.docs.blocks import READ, ROOT, RUN, SHOWN, Block, all_blocks
from tests.docs.given import GIVEN

pytestmark = pytest.mark.later

BLOCKS = list(all_blocks())
PRINTED = {
    "README.md": [r"^batch 8$|b'batch 8'"],
    "docs/cli.md": [
        r"^refused: session (\w+) holds it$",
        r"^(\w+)  \S+@\S+:\d+ \(milepost lock\)  60\.0 ",
        r"^latest is removed$",
    ],
}
"""What the lines of a page print, where that says more than that they end well."""

ANSWERS = ["docs/start/rest.md"]
"""Pages whose blocks of text have what the lines before them print, line by line."""

VARYING = re.compile(r"shell-\d+-\d+|[0-9a-f]{12}\.\d+|\d{4}-\d\d-\d\dT[\d:.]+Z")
"""Ids, versions and times, which are others in each run."""


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS if block.held == "run"}))
def test_the_blocks_work_one_after_the_other(page: str, role: str, asked: Callable[[str], str], tmp_path: Path) -> None:
    url = asked(role)  # also what a reader has by default, at 127.0.0.1:7070
    replaced: dict[str, str] = {}
    blocks = [block for block in BLOCKS if block.page == page and block.held == "run"]
    for given in {block.marks["given"] for block in blocks if "given" in block.marks}:
        replaced |= GIVEN[given](url, tmp_path)
    ran = pasted.run(pasted.script_of(blocks, url, replaced, tmp_path), tmp_path, MILEPOST_URL=url)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert not re.search(r"Traceback|Warning", ran.stderr), ran.stderr
    for pattern in PRINTED.get(page, []) + shown_by(page):
        assert re.search(pattern, ran.stdout, re.MULTILINE), (pattern, ran.stdout)


def shown_by(page: str) -> list[str]:
    """What the page says that its lines print."""
    texts = [block.text for block in BLOCKS if block.page == page in ANSWERS and block.language == "text"]
    lines = "".join(texts).splitlines()
    return ["^" + r"\S+?".join(map(re.escape, VARYING.split(line))) + "$" for line in lines]


def test_each_block_has_a_test_and_each_mark_is_known() -> None:
    print(Counter(block.held for block in BLOCKS))
    for block in BLOCKS:
        assert block.marks.keys() <= {"tested by", "given"}, block.place
        assert block.marks.get("given", next(iter(GIVEN))) in GIVEN, block.place
        if block.language in RUN:
            assert block.held in ("run", "tested by"), block.place


def test_a_test_that_a_mark_names_reads_the_page() -> None:
    for block in BLOCKS:
        if path := block.marks.get("tested by"):
            assert Path(block.page).name in (ROOT / path).read_text(encoding="utf-8"), block.place


def test_each_block_has_a_language_that_is_known() -> None:
    for block in BLOCKS:
        assert block.language in (*RUN, *READ, *SHOWN), block.place


def test_no_command_hides_in_a_block_that_is_only_shown() -> None:
    commands = re.compile(r"^(\$ |sudo |curl |make |milepost |kubectl |helm |pip |docker |export )", re.MULTILINE)
    assert [block.place for block in BLOCKS if block.held == "shown" and commands.search(block.text)] == []


def test_no_block_is_made_by_indentation() -> None:
    """Such a one has no language and no mark, so no test would find it."""
    for page in sorted({block.page for block in BLOCKS}):
        text = re.sub(
            r"^( *)```.*?^\1```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        assert re.findall(r"(?<=\n\n) {4,}(?![-*\d ]).+", text) == [], page


# -- blocks that no program runs as they stand ---------------------------------------------------------------------


def test_each_json_yaml_toml_and_ini_can_be_read() -> None:
    def ini(text: str) -> list[str]:
        parsed = configparser.ConfigParser()
        parsed.read_string(text)
        return parsed.sections()

    readers: dict[str, Callable[[str], Any]] = {
        "json": json.loads,
        "yaml": lambda text: list(yaml.safe_load_all(text)),
        "toml": tomllib.loads,
        "ini": ini,
    }
    read = [block.place for block in BLOCKS if block.language in readers and readers[block.language](block.text)]
    assert read


def test_each_part_of_a_python_file_can_be_read() -> None:
    """As statements, as the head of a loop, or as what stands in a ``match``, in a list or in a dict."""
    for block in BLOCKS:
        if block.language == "py":
            for part in re.split(r"\n\n(?=    )", block.text) if block.text.startswith("from") else [block.text]:
                text = dedent(part)
                framed = (
                    text,
                    f"{text}    pass",
                    f"match _:\n{indent(text, '    ')}",
                    f"[\n{text}\n]",
                    f"{{\n{text}\n}}",
                )
                assert any(map(_parses, framed)), block.place


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


# -- also the lines that others run speak of what there is ----------------------------------------------------------


def commands() -> Iterator[tuple[Block, list[str]]]:
    """Each command of a shell block, as words; up to the first ``…``."""
    for block in BLOCKS:
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                for command in re.split(r"&&|\|\||[;|]", line):
                    try:
                        words = shlex.split(command, comments=True)
                    except ValueError:  # the command goes on in the next line, within quotes
                        continue
                    if words:
                        yield block, words


def test_each_flag_of_the_server_exists() -> None:
    flags = {option for action in parser({})._actions for option in action.option_strings}
    used = [(block.place, word) for block, words in commands() if words[0] == "milepost-server" for word in words]
    named = [(place, word.split("=")[0]) for place, word in used if word.startswith("--")]
    assert named
    assert [each for each in named if each[1] not in flags] == []


def test_each_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = [
        (block.place, word)
        for block, words in commands()
        if words[0] == "make"
        for word in words[1:]
        if "=" not in word
    ]
    assert named
    assert [each for each in named if each[1] not in targets] == []


def test_each_command_of_milepost_exists() -> None:
    found = 0
    for block, words in commands():
        if words[0] == "milepost":  # and not .venv/bin/milepost, by which a recipe shows a command of its own
            command: Any = root_command()
            for word in words[1:]:
                if word in getattr(command, "commands", {}):
                    command = command.commands[word]
                    found += 1
                    if word == "run":
                        break
            complete = not getattr(command, "commands", {}) or command.invoke_without_command or "--version" in words
            assert complete, (block.place, words)
    assert found > 10


def test_each_path_of_a_test_exists() -> None:
    named = [
        (block.place, word)
        for block, words in commands()
        for word in words
        if word.startswith("tests/") and (block.page != "docs/recipes/backend.md" or "toy" not in word)
    ]
    assert [each for each in named if not (ROOT / each[1]).exists()] == []

"""The page on managed state: its table has every method of the contract, each with tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from milepost.state.store import ReadStateStore, StateStore, StateStoreProvider
from milepost.state.store.format.files import SCHEMA
from milepost.state.store.format.heads import DeltaHead, Run, RunHead, RunPart, SnapshotHead, head_to_json
from milepost.state.store.rows import Families

pytestmark = pytest.mark.later

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "state.md").read_text(encoding="utf-8")
TESTS = ROOT / "tests" / "client" / "state" / "store"
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (`test_[^|]+) \|$", TEXT, re.MULTILINE)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ELSEWHERE = re.findall(r"`((?:client|spark|service|wire)/[\w/]+\.py)::(\w+)`", TEXT)
"""Tests that other tables of the page name, by their file below ``tests``."""


def methods(kind: type) -> set[str]:
    """The public names of a contract."""
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_method_has_its_row() -> None:
    told = {name.rpartition(".")[2] for _, here, _ in ROWS for name in re.findall(r"`([\w.]+)`", here)}
    assert told - {"combine"} == methods(ReadStateStore) | methods(StateStore) | methods(StateStoreProvider)


@pytest.mark.parametrize(("spark", "test"), [(spark, test) for spark, _, tests in ROWS for test in tests.split(", ")])
def test_every_named_test_is_there(spark: str, test: str) -> None:
    file, _, name = test.strip("`").partition("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, spark


def test_every_test_of_the_other_tables_is_there() -> None:
    for file, name in ELSEWHERE:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        assert name in {one.name for one in ast.walk(tree) if isinstance(one, FUNCTIONS)}, (file, name)


def test_docstrings_name_the_originals_of_the_table() -> None:
    """Each name of Spark's stands in the docstring of what the table puts beside it."""
    documented = " ".join(
        attribute.__doc__ or ""
        for kind in (ReadStateStore, StateStore, StateStoreProvider)
        for attribute in (getattr(kind, name) for name in methods(kind))
    )
    for spark, _, _ in ROWS:
        for name in re.findall(r"`(?:ReadStateStore\.|StateStore\.|StateStoreProvider\.)?([\w.]+)`", spark):
            assert name == "StateStoreMetrics.combine" or f"``{name}``" in documented, name


def test_every_field_of_the_format_has_its_row() -> None:
    head = TEXT[TEXT.index("The metadata of the schema") :].partition("\n## ")[0]
    told = set(re.findall(r"^\| `(\w+)` \|", head, re.MULTILINE))
    run = Run(0, 1, (RunPart("", 0, 0, b"\0" * 4, b"\0" * 4),))
    heads = (DeltaHead(1, (), Families(), 0), RunHead(0, 1), SnapshotHead(1, "", (run,)))
    written = set().union(*(head_to_json(one) for one in heads))
    assert told == written | {"format", "store", "nonce", "batches"}
    columns = re.findall(r"^\| `(\w+)` \| (?:uint|binary)", TEXT, re.MULTILINE)
    assert columns == SCHEMA.names

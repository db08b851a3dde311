"""No scenario of the peer's is missing: each number stands in the docstring of a test."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import FunctionType

import pytest

from tests.contracts import state_handle_store
from tests.contracts.state_handle_store import definite_errors

SCENARIOS = {"ZooKeeper": 46, "Kubernetes": 10}
NUMBERS = re.compile(r"\b(ZooKeeper|Kubernetes) (\d+)(?:-(\d+))?")


def all_tests() -> Iterator[FunctionType]:
    for module in pkgutil.iter_modules(state_handle_store.__path__, f"{state_handle_store.__name__}."):
        if not module.name.rpartition(".")[2].startswith("test_"):
            continue
        for name, test in vars(importlib.import_module(module.name)).items():
            if name.startswith("test_") and isinstance(test, FunctionType):
                yield test


def covered(suite: str) -> set[int]:
    found: set[int] = set()
    for test in all_tests():
        for named, first, last in NUMBERS.findall(test.__doc__ or ""):
            if named == suite:
                found.update(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize("suite", SCENARIOS)
def test_every_scenario_has_a_test(suite: str) -> None:
    assert covered(suite) == set(range(1, SCENARIOS[suite] + 1))


def test_a_range_of_scenarios_has_as_many_cases() -> None:
    assert len({error.kind for error in definite_errors.OF_ADD}) == len(range(9, 16 + 1))
    assert len({error.kind for error in definite_errors.OF_REPLACE}) == len(range(21, 29 + 1))

"""No scenario of Flink's own tests is missing: each number stands in the docstring of a test.

ZooKeeper's are the 46 of ZooKeeperStateHandleStoreTest. KubernetesStateHandleStoreTest has 23, of which ten add
something and are numbered here: to add (1-3, 9), replace (4, 5, 10), remove (6, 8) and clear (7). The other 13 are
ZooKeeper's once more; by what is left of each operation these are that it works (1, 17, 30, 33, 36, 37, 44-46) and
that something is absent or there already (4, 7, 19, 32). All 46 run over every deployment, so that none is left out.
The 12 of checkpoints are those of DefaultCompletedCheckpointStoreTest and its kin that make sense here.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import FunctionType

import pytest

from tests.contracts import state_handle_store
from tests.contracts.state_handle_store.frontends import definite_errors

SCENARIOS = {"ZooKeeper": 46, "Kubernetes": 10, "Checkpoints": 12}
NUMBERS = re.compile(r"\b(ZooKeeper|Kubernetes|Checkpoints) (\d+)(?:-(\d+))?")


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
    assert len(definite_errors.kinds_of(definite_errors.OF_ADD)) == len(range(9, 16 + 1))
    assert len(definite_errors.kinds_of(definite_errors.OF_REPLACE)) == len(range(21, 29 + 1))

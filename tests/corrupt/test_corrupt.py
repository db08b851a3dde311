"""A cut of ``make corrupt``: each kind of thing is damaged in one way without a leader, and in one under a leader."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from tests.contracts.places import Services
from tests.corrupt import kubernetes
from tests.corrupt.cases import STORES, cases
from tests.corrupt.shape import Damage
from tests.corrupt.trial import Case, try_out

pytestmark = pytest.mark.anyio

SEED: Final = 1


def cut(seed: int) -> list[Case]:
    """Choose for each kind of thing one damage without a leader and one under a leader."""
    chance = random.Random(seed)
    chosen: list[Case] = []
    for store in STORES:
        for kind in store.kinds:
            for leader in (False, True):
                mine = [case for case in cases([store], seed) if (case.kind, case.leader) == (kind.name, leader)]
                chosen.extend([chance.choice(mine)] if mine else [])
    return chosen


def param(case: Case) -> pytest.ParameterSet:
    """Make a case a parameter, in the suite that its store needs."""
    marks = pytest.mark.kubernetes if case.store is kubernetes.STORE else ()
    return pytest.param(case, id=str(case), marks=marks)


@pytest.mark.parametrize("case", [param(case) for case in cut(SEED)])
async def test_no_damage_passes_in_silence(case: Case, tmp_path: Path, services: Services) -> None:
    await try_out(case, tmp_path, services)


def test_the_page_lists_each_kind_of_thing_and_each_damage() -> None:
    """No row of it may be empty. (What became of them is written there by a full run.)"""
    page = (Path(__file__).parents[2] / "docs" / "damage.md").read_text()
    rows = [
        tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in page.splitlines() if line.startswith("| ")
    ]
    listed = {row[:2]: row[2:] for row in rows if len(row) == 4 and row[1] in {damage.value for damage in Damage}}
    for case in cases(STORES, SEED):
        row = (f"{case.store.name}: {case.kind}", case.damage.value)
        assert listed.get(row, ("", ""))[case.leader], (
            f"make corrupt ARGS='--table docs/damage.md' has not listed {case}"
        )

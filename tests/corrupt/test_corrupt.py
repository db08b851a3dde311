"""A cut of ``make corrupt``: each kind of thing is damaged in one way without a leader, and in one under a leader."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from tests.contracts.places import Services
from tests.corrupt.cases import STORES, cases
from tests.corrupt.trial import Case, try_out

pytestmark = pytest.mark.anyio

SEED: Final = 1


def cut(seed: int) -> list[Case]:
    """Of each kind of thing one damage without a leader and one under a leader."""
    chance = random.Random(seed)
    chosen: list[Case] = []
    for store in STORES:
        for kind in store.kinds:
            for leader in (False, True):
                mine = [case for case in cases([store], seed) if (case.kind, case.leader) == (kind.name, leader)]
                chosen.extend([chance.choice(mine)] if mine else [])
    return chosen


@pytest.mark.parametrize("case", cut(SEED), ids=str)
async def test_no_damage_passes_in_silence(case: Case, tmp_path: Path, services: Services) -> None:
    await try_out(case, tmp_path, services)

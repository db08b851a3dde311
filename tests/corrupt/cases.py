"""Which cases there are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from tests.corrupt import blobs, embedded, kubernetes, zookeeper
from tests.corrupt.shape import Damage, Store
from tests.corrupt.trial import Case

STORES: Final[tuple[Store, ...]] = (embedded.STORE, zookeeper.STORE, blobs.LOCAL, blobs.S3, kubernetes.STORE)
"""A store that is added here is part of ``python -m tests.corrupt`` and of the cut that `test_corrupt` runs."""


def cases(stores: Sequence[Store], seed: int) -> list[Case]:
    """Each kind of thing, each damage that can be done to it, with a leader and without, as often as its weight says.

    Bits and bytes have many places, so those are tried that often; what is done to the whole is tried once.
    """
    chance = random.Random(seed)
    return [
        Case(store, kind.name, damage, leader, chance.randrange(10**6))
        for store in stores
        for kind in store.kinds
        for damage in Damage
        for leader in (False, True)
        if kind.can_be(damage, leader)
        for _ in range(kind.weight if damage in (Damage.BIT, Damage.BYTE, Damage.SHORT) else 1)
    ]

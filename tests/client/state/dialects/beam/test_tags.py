"""Tags: which are equal, and which are refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from operator import add, mul
from typing import Any

import pytest

from milepost.state.coders import FixedIntCoder, JsonCoder, ListCoder, MsgpackCoder, TupleCoder, Utf8Coder, VarintCoder
from milepost.state.coders.pickled import PickleCoder
from milepost.state.dialects.beam import StateTag, StateTags, TimestampCombiner
from milepost.state.errors import InvalidUse, NotDeterministic
from tests.client.state.dialects.beam.test_contract import Sum

MAKERS: dict[str, list[Callable[[str], StateTag[Any]]]] = {
    "value": [lambda id: StateTags.value(id, VarintCoder()), lambda id: StateTags.value(id, FixedIntCoder())],
    "bag": [lambda id: StateTags.bag(id, VarintCoder()), lambda id: StateTags.bag(id, FixedIntCoder())],
    "set": [lambda id: StateTags.set(id, VarintCoder()), lambda id: StateTags.set(id, FixedIntCoder())],
    "map": [
        lambda id: StateTags.map(id, Utf8Coder(), VarintCoder()),
        lambda id: StateTags.map(id, VarintCoder(), JsonCoder()),
    ],
    "multimap": [
        lambda id: StateTags.multimap(id, Utf8Coder(), VarintCoder()),
        lambda id: StateTags.multimap(id, VarintCoder(), JsonCoder()),
    ],
    "ordered list": [
        lambda id: StateTags.ordered_list(id, VarintCoder()),
        lambda id: StateTags.ordered_list(id, PickleCoder()),
    ],
    "combining": [
        lambda id: StateTags.combining(id, ListCoder(VarintCoder()), Sum()),
        lambda id: StateTags.combining(id, JsonCoder(), Sum()),
    ],
    "reducing": [
        lambda id: StateTags.reducing(id, VarintCoder(), add),
        lambda id: StateTags.reducing(id, VarintCoder(), mul),
    ],
    "watermark hold": [
        lambda id: StateTags.watermark_hold(id, TimestampCombiner.EARLIEST),
        lambda id: StateTags.watermark_hold(id, TimestampCombiner.LATEST),
    ],
}


@pytest.mark.parametrize("kind", MAKERS)
def test_equality(kind: str) -> None:
    """Tags are equal by id and kind, as in Beam's ``StateTagTest``: what the bytes mean is another matter."""
    one, other = MAKERS[kind]
    assert one("foo") == one("foo") == other("foo")
    assert hash(one("foo")) == hash(other("foo"))
    assert one("foo") != one("bar")
    assert one("foo") != StateTags.system_tag(one("foo")) == StateTags.system_tag(other("foo"))
    others = [makers[0]("foo") for name, makers in MAKERS.items() if name != kind]
    assert one("foo") not in others
    assert one("foo").kind.value == kind


@pytest.mark.parametrize("kind", MAKERS)
def test_a_tag_can_be_pickled(kind: str) -> None:
    tag = MAKERS[kind][0]("foo")
    assert pickle.loads(pickle.dumps(tag)) == tag


@pytest.mark.parametrize("coder", [JsonCoder(), MsgpackCoder(), PickleCoder(), TupleCoder(Utf8Coder(), JsonCoder())])
def test_coders_that_are_not_deterministic_make_no_keys(coder: Any) -> None:
    with pytest.raises(NotDeterministic, match=f"elements of a set.*{type(coder).__name__}"):
        StateTags.set("a", coder)
    with pytest.raises(NotDeterministic, match=f"keys of a map.*{type(coder).__name__}"):
        StateTags.map("a", coder, VarintCoder())
    with pytest.raises(NotDeterministic, match=f"keys of a multimap.*{type(coder).__name__}"):
        StateTags.multimap("a", coder, VarintCoder())


def test_ids() -> None:
    with pytest.raises(InvalidUse, match="one character"):
        StateTags.value("", Utf8Coder())
    with pytest.raises(InvalidUse, match="surrogate"):
        StateTags.value("\ud800", Utf8Coder()).key  # noqa: B018 - the key is made once it is asked for
    keys = [StateTags.value(id, Utf8Coder()).key for id in ("a", "a\0", "ab", "u", "s")]
    assert not any(one.startswith(other) for one in keys for other in keys if one is not other)

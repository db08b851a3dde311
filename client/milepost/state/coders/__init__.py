"""Coders turn values into bytes and back.

A coder has two properties. ``deterministic``: equal values have the same bytes, so they can be keys. ``ordered``: the
bytes sort as the values do, so ranges of keys are ranges of values. For any input, a coder returns a result or raises
`CoderError`.

Pickle is not exported here: reading it runs the code that the bytes name. A program that trusts every writer of the
state imports `milepost.state.coders.pickled.PickleCoder` by that name.
"""

from milepost.state.coders.coder import Coder, ListCoder, NullableCoder, TupleCoder
from milepost.state.coders.documents import ArrowRowCoder, JsonCoder, MsgpackCoder
from milepost.state.coders.scalars import (
    BoolCoder,
    BytesCoder,
    FixedIntCoder,
    FloatCoder,
    TimestampCoder,
    Utf8Coder,
    VarintCoder,
)
from milepost.state.errors import CoderError

__all__ = [
    "Coder",
    "CoderError",
    "BytesCoder",
    "Utf8Coder",
    "BoolCoder",
    "FixedIntCoder",
    "VarintCoder",
    "FloatCoder",
    "TimestampCoder",
    "TupleCoder",
    "NullableCoder",
    "ListCoder",
    "JsonCoder",
    "MsgpackCoder",
    "ArrowRowCoder",
]

"""The list of a file's digests proves the ranges of that file, and says of anything else that it is no list."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost_server.blobs.range_digests import RangeDigests, RangeHasher, opened

CONTENTS = st.binary(max_size=2_000)
RANGES = st.integers(1, 300)


def listed(content: bytes, range_bytes: int, chunk: int = 7) -> RangeDigests:
    """The digests of a content that came in chunks."""
    hasher = RangeHasher(range_bytes)
    for begin in range(0, len(content), chunk):
        hasher.update(content[begin : begin + chunk])
    return hasher.digests()


def digest(content: bytes) -> str:
    """What the leader records of a content."""
    return hashlib.sha256(content).hexdigest()


@given(content=CONTENTS, range_bytes=RANGES, chunk=st.integers(1, 700))
def test_a_list_proves_each_range_however_the_bytes_came(content: bytes, range_bytes: int, chunk: int) -> None:
    made = listed(content, range_bytes, chunk)
    assert opened(made.sealed(len(content), digest(content)), len(content), digest(content)) == made
    ranges = [content[begin : begin + range_bytes] for begin in range(0, len(content), range_bytes)]
    assert len(made.digests) == 32 * len(ranges)
    assert all(made.proves(number, data) for number, data in enumerate(ranges))
    assert not made.proves(len(ranges), b"")


@given(content=st.binary(min_size=1, max_size=2_000), range_bytes=RANGES, data=st.data())
def test_a_range_that_was_altered_is_not_proven(content: bytes, range_bytes: int, data: st.DataObject) -> None:
    at, bit = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(0, 7))
    altered = bytearray(content)
    altered[at] ^= 1 << bit
    number = at // range_bytes
    made = listed(content, range_bytes)
    assert not made.proves(number, bytes(altered[number * range_bytes : (number + 1) * range_bytes]))
    assert not made.proves(number, content[number * range_bytes : (number + 1) * range_bytes][:-1])


@given(content=CONTENTS, range_bytes=RANGES, data=st.data())
def test_a_list_that_was_altered_anywhere_is_none(content: bytes, range_bytes: int, data: st.DataObject) -> None:
    stored = listed(content, range_bytes).sealed(len(content), digest(content))
    at, bit = data.draw(st.integers(0, len(stored) - 1)), data.draw(st.integers(0, 7))
    altered = bytearray(stored)
    altered[at] ^= 1 << bit
    for damaged in (bytes(altered), stored[:at], stored + b"\0", stored * 2):
        with pytest.raises(ValueError, match=r"no list|does not prove itself"):
            opened(damaged, len(content), digest(content))


@given(content=CONTENTS, range_bytes=RANGES)
def test_the_list_of_another_file_is_none(content: bytes, range_bytes: int) -> None:
    stored = listed(content, range_bytes).sealed(len(content), digest(content))
    for size, sha256 in ((len(content) + 1, digest(content)), (len(content), digest(content + b"!"))):
        with pytest.raises(ValueError, match="of other bytes"):
            opened(stored, size, sha256)

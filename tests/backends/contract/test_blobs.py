"""Safe keys; the suites over the blob stores hold every store to them."""

from __future__ import annotations

import pytest

from milepost_backends.contract import UnsafeKey, check_key, check_prefix
from milepost_backends.contract.blobs import MAX_KEY_LENGTH


@pytest.mark.parametrize("key", ["a", "-", "_", "a.b", "a..b", "stores/flights/12-0a1b", "A/b/C", "x" * 200])
def test_safe_keys(key: str) -> None:
    assert check_key(key) == key
    for length in range(len(key)):
        assert check_prefix(key[:length]) == key[:length]


@pytest.mark.parametrize(
    "key", ["", "a/", "/a", "a//b", ".", "..", "a/.", "a/../b", ".a", "a b", "a\n", "ä", "x" * 201]
)
def test_unsafe_keys(key: str) -> None:
    with pytest.raises(UnsafeKey):
        check_key(key)


def test_a_key_has_a_length_that_every_store_takes() -> None:
    longest = ("x" * 99 + "/") * 9
    assert len(check_key(longest[: MAX_KEY_LENGTH - 1])) == MAX_KEY_LENGTH - 1
    with pytest.raises(UnsafeKey):
        check_key(longest + "xx")
    with pytest.raises(UnsafeKey):
        check_prefix(longest + "x")


@pytest.mark.parametrize("prefix", ["/", "a//", ".", "a/.", "..", "a/../"])
def test_unsafe_prefixes(prefix: str) -> None:
    with pytest.raises(UnsafeKey):
        check_prefix(prefix)

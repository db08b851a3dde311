"""Keys of a store that begin with their key group, so that a range of groups is a range of keys.

A key lies in a store as its group in two bytes, the highest first, and then its own bytes, as in Flink's RocksDB state
backend. Where something follows the key, such as the key of a map's entry, the key is written so that its end can be
told, and the entries of one key lie side by side.
"""

from __future__ import annotations

from milepost.state.coders.escaped import read_escaped, write_escaped
from milepost.state.errors import CoderError
from milepost.state.key_groups import KeyGroups

GROUP_BYTES = 2
"""The bytes of a group: the most groups that there can be, 32768, fit into them, and so does the end of the last."""


def with_group(groups: KeyGroups, key: bytes) -> bytes:
    """Return an encoded ``key`` behind its group, as a store has it."""
    return groups.group(key).to_bytes(GROUP_BYTES, "big") + key


def without_group(kept: bytes) -> tuple[int, bytes]:
    """Return the group and the key of what `with_group` made. Raises `CoderError`."""
    if len(kept) < GROUP_BYTES:
        raise CoderError("a key of a store with key groups begins with two bytes of its group")
    return int.from_bytes(kept[:GROUP_BYTES], "big"), kept[GROUP_BYTES:]


def entries_of(groups: KeyGroups, key: bytes) -> bytes:
    """Return the bytes with which every entry of an encoded ``key`` begins, and no entry of another key."""
    return groups.group(key).to_bytes(GROUP_BYTES, "big") + write_escaped(key)


def split_entry(kept: bytes) -> tuple[int, bytes, bytes]:
    """Return the group, the key, and what follows the key, of an entry of `entries_of`. Raises `CoderError`."""
    group, rest = without_group(kept)
    key, end = read_escaped(rest, 0)
    return group, key, rest[end:]


def range_of_groups(groups: range) -> tuple[bytes, bytes]:
    """Return the first key that a range of groups can have, and the first behind all of them."""
    if groups.step != 1 or not 0 <= groups.start <= groups.stop:
        raise ValueError(f"these are no groups side by side: {groups}")
    return groups.start.to_bytes(GROUP_BYTES, "big"), groups.stop.to_bytes(GROUP_BYTES, "big")

"""What compaction writes again, and how much space it leaves a journal."""

from __future__ import annotations

import pytest

from milepost_backends.contract import Head
from milepost_backends.kubernetes.configmaps.chain import Chain, Segment
from milepost_backends.kubernetes.configmaps.entries import encode, size_of
from milepost_backends.kubernetes.configmaps.head import EMPTY, sealed
from milepost_backends.kubernetes.configmaps.memory import ChainMemory, PendingSegment, allowed_space, compact
from milepost_backends.kubernetes.configmaps.objects import ConfigMapLayout, Metadata
from milepost_backends.kubernetes.configmaps.stamps import Stamp

MIB = 1024 * 1024
FILES, GROUP, FILE = 320, 16, b"x" * 500
LONGER = b"x" * 600
HEAD = Head("root", 1, 1, "lineage", "")


@pytest.mark.parametrize(
    ("live", "space"),
    [(0, MIB // 8), (MIB // 2, 2 * MIB), (8 * MIB, 24 * MIB), (64 * MIB, 136 * MIB)],
    ids=["nothing", "some", "much", "all that is allowed"],
)
def test_the_more_counts_the_less_may_be_waste(live: int, space: int) -> None:
    assert allowed_space(live) == space


def test_files_that_die_after_two_batches_are_hardly_written_again() -> None:
    """As in the checkpoints of Spark's queries, which write each file under a longer name first."""
    memory = new_memory()
    written = moved = 0
    for number in range(FILES, 12 * FILES, GROUP):
        entries: dict[str, str] = {}
        for each in range(number, number + GROUP):
            entries |= [encode(f"temporary/{each}", LONGER), encode(f"files/{each - GROUP}", FILE)]
            entries |= [encode(f"temporary/{each - GROUP}", None), encode(f"files/{each - 2 * FILES}", None)]
        size, taken = put(memory, entries)
        written, moved = written + size, moved + taken
    assert memory.space <= allowed_space(memory.live) + 64 * 1024
    assert moved < written / 20


@pytest.mark.parametrize("count", [20, 128, 250])
def test_groups_of_any_size_beside_what_never_changes_take_bounded_space(count: int) -> None:
    memory = new_memory()
    for begin in range(0, 2000, 20):
        put(memory, dict(encode(f"static/{number}", LONGER) for number in range(begin, begin + 20)))
    for turn in range(24 * MIB // (count * len(FILE))):
        put(memory, dict(encode(f"files/{turn % 4}/{number}", FILE) for number in range(count)))
        assert memory.space <= allowed_space(memory.live) + 2 * MIB


def new_memory() -> ChainMemory:
    layout = ConfigMapLayout("milepost", "root")
    chain = Chain(HEAD, 1, 1, {1: Segment(1, Metadata(), EMPTY)}, None, [], Stamp(layout.witness))
    return ChainMemory(layout, chain)


def put(memory: ChainMemory, entries: dict[str, str]) -> tuple[int, int]:
    """Write a group, and seal the segment; return the bytes of the group, and those that were written again."""
    data = memory.patched(entries)
    size = sum(size_of(key, text) for key, text in data.items())
    first, grown = compact(memory, data, size, size)
    then = Segment(memory.last + 1, Metadata(), EMPTY)
    after = sealed(HEAD, first, then.number, data)
    memory.committed(PendingSegment(memory.last, after, data, grown, then), Metadata())
    return size, grown - size

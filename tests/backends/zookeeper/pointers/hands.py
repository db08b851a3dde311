"""What a foreign hand may do to the head of a journal in ZooKeeper and to its witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kazoo.client import KazooClient
from msgspec.structs import replace

from milepost_backends.contract import Head
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout, encode_head


@dataclass(frozen=True)
class Hand:
    """A foreign hand at a journal: what it finds, and what it had found earlier."""

    visitor: KazooClient
    layout: ZnodeLayout
    head: Head
    earlier: bytes
    """What the head held one group before."""

    @property
    def path(self) -> str:
        return self.layout.head(self.head)

    def flip(self, path: str, bit: int) -> None:
        data = bytearray(self.visitor.get(path)[0])
        data[bit // 8] ^= 1 << bit % 8
        self.visitor.set(path, bytes(data))


def garble_head(hand: Hand) -> None:
    hand.visitor.set(hand.path, b"\xff\x00")


def empty_head(hand: Hand) -> None:
    hand.visitor.set(hand.path, b"")


def cut_head(hand: Hand) -> None:
    hand.visitor.set(hand.path, hand.visitor.get(hand.path)[0][:-10])


def nest_head(hand: Hand) -> None:
    hand.visitor.set(hand.path, b"[" * 100_000)


def surrogate_head(hand: Hand) -> None:
    data = hand.visitor.get(hand.path)[0]
    hand.visitor.set(hand.path, data.replace(hand.head.lineage.encode(), b"\\ud800"))


def another_terms_head(hand: Hand) -> None:
    hand.visitor.set(hand.path, encode_head(replace(hand.head, term=hand.head.term + 1)))


def flip_head(hand: Hand) -> None:
    hand.flip(hand.path, 8 * encode_head(hand.head).index(b'"revision"') + 8 * 12)


def older_head(hand: Hand) -> None:
    hand.visitor.set(hand.path, hand.earlier)


def delete_head(hand: Hand) -> None:
    hand.visitor.delete(hand.path)


def second_head(hand: Hand) -> None:
    hand.visitor.create(f"{hand.layout.place}/head-000000000009-abc", b"")


def delete_records(hand: Hand) -> None:
    hand.visitor.delete(hand.layout.records, recursive=True)


def delete_journal(hand: Hand) -> None:
    hand.visitor.delete(hand.layout.place, recursive=True)


def delete_all_journals(hand: Hand) -> None:
    hand.visitor.delete(hand.layout.place.rpartition("/")[0], recursive=True)


def replace_journal(hand: Hand) -> None:
    hand.visitor.delete(hand.layout.place, recursive=True)
    hand.visitor.create(hand.path, hand.earlier, makepath=True)
    hand.visitor.create(hand.layout.record("a"), b"1", makepath=True)


Act = Callable[[Hand], None]
AT_HEADS: tuple[Act, ...] = (
    garble_head,
    empty_head,
    cut_head,
    nest_head,
    surrogate_head,
    another_terms_head,
    flip_head,
    older_head,
    delete_head,
    delete_records,
    delete_journal,
    delete_all_journals,
    replace_journal,
)


def delete_witness(hand: Hand) -> None:
    hand.visitor.delete(hand.layout.witness)


def delete_all_witnesses(hand: Hand) -> None:
    hand.visitor.delete(hand.layout.witness.rpartition("/")[0], recursive=True)


def empty_witness(hand: Hand) -> None:
    hand.visitor.set(hand.layout.witness, b"")


def flip_witness(hand: Hand) -> None:
    hand.flip(hand.layout.witness, 300)


def older_witness(hand: Hand) -> None:
    hand.visitor.set(hand.layout.witness, hand.earlier)


AT_WITNESSES: tuple[Act, ...] = (
    delete_witness,
    delete_all_witnesses,
    empty_witness,
    flip_witness,
    older_witness,
)

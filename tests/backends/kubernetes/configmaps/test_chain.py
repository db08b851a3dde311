"""Which segments count, judged by what a listing shows; and what is damage."""

from __future__ import annotations

import msgspec
import pytest

from milepost_backends.contract import Head, JournalDamaged
from milepost_backends.kubernetes.configmaps.chain import chain_of
from milepost_backends.kubernetes.configmaps.head import EMPTY, SegmentHead, WitnessAnnotation, active, sealed, sum_of
from milepost_backends.kubernetes.configmaps.head import first as untaken
from milepost_backends.kubernetes.configmaps.objects import HEAD, NAME, ConfigMap, ConfigMapLayout, Metadata
from milepost_backends.kubernetes.configmaps.stamps import Stamp

pytestmark = pytest.mark.kubernetes

LAYOUT = ConfigMapLayout("milepost", "root")
HEAD_OF_TERM = Head("root", 3, 40, "abc")
OF_ANOTHER_SCHEMA = msgspec.structs.replace(active(HEAD_OF_TERM, 1, {}), schema=1)


def summed(head: SegmentHead, data: dict[str, str]) -> SegmentHead:
    return head if head is EMPTY else msgspec.structs.replace(head, entries=sum_of(data))


def segment(number: int, head: SegmentHead | str | None, **data: str) -> ConfigMap:
    """As the API lists it."""
    annotations = {NAME: "root"}
    if head is not None:
        annotations[HEAD] = head if isinstance(head, str) else summed(head, data).encoded(LAYOUT.segment(number))
    metadata = Metadata(LAYOUT.segment(number), "ns", "uid", str(100 + number), annotations=annotations)
    return ConfigMap(metadata, data)


def witness(text: str) -> ConfigMap:
    return ConfigMap(Metadata(LAYOUT.witness, "ns", "uid", "7", annotations={NAME: "root", HEAD: text}))


def full(number: int, first: int = 1) -> ConfigMap:
    return segment(number, sealed(HEAD_OF_TERM, first, number + 1, {}), a=str(number))


def last(number: int, first: int = 1) -> ConfigMap:
    return segment(number, active(HEAD_OF_TERM, first, {}), a=str(number))


def test_nothing_is_no_journal() -> None:
    assert chain_of(LAYOUT, []) is None


def test_a_journal_that_nobody_took_over_has_term_0() -> None:
    chain = chain_of(LAYOUT, [segment(1, untaken())])
    assert chain is not None
    assert (chain.head, chain.first, chain.last) == (Head("root", 0, 0, ""), 1, 1)


def test_the_highest_segment_that_was_written_holds_the_head() -> None:
    recorded = WitnessAnnotation.of(HEAD_OF_TERM)
    chain = chain_of(
        LAYOUT, [last(3, 2), segment(4, EMPTY), full(2), witness(recorded.encoded(LAYOUT.witness)), full(1)]
    )
    assert chain is not None
    assert (chain.head, chain.first, chain.last, sorted(chain.segments)) == (HEAD_OF_TERM, 2, 3, [2, 3])
    assert chain.spare is not None
    assert chain.spare.number == 4
    assert [metadata.name for metadata in chain.leftovers] == [LAYOUT.segment(1)]
    assert chain.witness.recorded == recorded


def test_after_a_sealed_one_the_empty_one_takes_the_next_group() -> None:
    chain = chain_of(LAYOUT, [full(1), full(2), segment(3, EMPTY)])
    assert chain is not None
    assert (chain.head, chain.last, sorted(chain.segments), chain.spare) == (HEAD_OF_TERM, 3, [1, 2, 3], None)


def test_what_lies_below_the_first_is_garbage_whatever_it_says() -> None:
    """A creation that was long on its way may have made it."""
    for stray in (segment(2, EMPTY), last(2), segment(2, "garbage"), segment(2, None)):
        chain = chain_of(LAYOUT, [stray, full(4, 4), last(5, 4)])
        assert chain is not None
        assert [metadata.name for metadata in chain.leftovers] == [LAYOUT.segment(2)]
        assert sorted(chain.segments) == [4, 5]


def test_what_somebody_put_there_under_other_names_is_nothing_to_us() -> None:
    stray = segment(9, active(HEAD_OF_TERM, 1, {}))
    for name in ("milepost-root-000000000009", LAYOUT.prefix + "-9", LAYOUT.segment(9) + "-copy", LAYOUT.prefix):
        stray.metadata.name = name
        chain = chain_of(LAYOUT, [last(1), stray])
        assert chain is not None
        assert sorted(chain.segments) == [1]


@pytest.mark.parametrize(
    ("items", "named"),
    [
        ([full(1), last(3)], 2),
        ([full(2), last(3)], 1),
        ([full(1), segment(2, EMPTY), last(3)], 2),
        ([full(1), last(2), last(3)], 2),
        ([full(1), segment(2, None), last(3)], 2),
        ([full(1), segment(2, "{}"), last(3)], 2),
        ([full(1), segment(2, None)], 2),
        ([full(1), segment(2, active(HEAD_OF_TERM, 1, {}).encoded(LAYOUT.segment(3)))], 2),
        ([full(1), last(2), segment(3, "garbage", a="1")], 3),
        ([full(1), segment(2, "garbage")], 2),
        ([full(1), full(2)], 3),
        ([full(1), full(2), segment(4, EMPTY)], 3),
        ([segment(1, EMPTY)], 1),
        ([segment(2, EMPTY)], 1),
        ([full(1), segment(2, sealed(HEAD_OF_TERM, 1, 4, {}))], 2),
        ([full(1), segment(2, active(Head("root", 0, 9, "abc"), 1, {}))], 2),
        ([full(1), segment(2, active(Head("root", 4, 9, ""), 1, {}))], 2),
        ([full(1), segment(2, active(HEAD_OF_TERM, 3, {}))], 2),
        (
            [
                full(1),
                segment(2, active(HEAD_OF_TERM, 1, {}).encoded(LAYOUT.segment(2)).replace('"schema":2', '"schema":3')),
            ],
            2,
        ),
    ],
)
def test_anything_else_is_damage_and_the_message_names_the_config_map(items: list[ConfigMap], named: int) -> None:
    with pytest.raises(JournalDamaged, match=LAYOUT.segment(named)):
        chain_of(LAYOUT, items)


def test_a_witness_alone_is_damage() -> None:
    with pytest.raises(JournalDamaged, match=LAYOUT.witness):
        chain_of(LAYOUT, [witness(WitnessAnnotation.of(HEAD_OF_TERM).encoded(LAYOUT.witness))])


@pytest.mark.parametrize(("later", "earlier"), [((4, 40), (2, 40)), ((3, 41), (3, 39)), ((4, 39), (2, 41))])
def test_a_witness_or_a_mark_that_is_ahead_of_the_newest_segment_is_damage(
    later: tuple[int, int], earlier: tuple[int, int]
) -> None:
    """Segments are written first: somebody put an older copy in its place, and groups are missing."""
    ahead, behind = (WitnessAnnotation.of(Head("root", *counts, "abc")) for counts in (later, earlier))
    with pytest.raises(JournalDamaged, match="older copy"):
        chain_of(LAYOUT, [last(1), witness(ahead.encoded(LAYOUT.witness))])
    mark = Stamp(LAYOUT.deployment_marker, Metadata(LAYOUT.deployment_marker, "ns", "uid", "8"), ahead)
    with pytest.raises(JournalDamaged, match="older copy"):
        chain_of(LAYOUT, [last(1)], mark)
    assert chain_of(LAYOUT, [last(1), witness(behind.encoded(LAYOUT.witness))]) is not None


def test_a_founding_mark_alone_is_damage() -> None:
    mark = Stamp(
        LAYOUT.deployment_marker,
        Metadata(LAYOUT.deployment_marker, "ns", "uid", "8"),
        WitnessAnnotation.of(HEAD_OF_TERM),
    )
    with pytest.raises(JournalDamaged, match=LAYOUT.deployment_marker):
        chain_of(LAYOUT, [], mark)


def test_a_next_segment_whose_head_was_garbled_while_it_was_empty_hides_nothing() -> None:
    """It was not written to: that takes a sealing first."""
    chain = chain_of(LAYOUT, [full(1), last(2), segment(3, "garbage")])
    assert chain is not None
    assert (chain.last, chain.spare) == (2, None)


def test_entries_that_are_not_those_written_are_reported_by_their_segment() -> None:
    altered = full(1)
    altered.data["a"] = "theirs"
    chain = chain_of(LAYOUT, [altered, last(2)])
    assert chain is not None
    assert [number for number, segment in chain.segments.items() if not segment.is_proven] == [1]


def test_a_witness_that_makes_no_sense_is_none() -> None:
    chain = chain_of(LAYOUT, [last(1), witness("{}")])
    assert chain is not None
    assert chain.witness.metadata is not None
    assert chain.witness.recorded is None

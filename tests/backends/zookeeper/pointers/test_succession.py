"""Which head a take-over goes on from: the rules alone, without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from milepost_backends.contract import NO_RECORDS, Head, JournalDamaged, TakeOverLost
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout, encode_head
from milepost_backends.zookeeper.pointers.succession import Remembered, Stored, StoredJournal, Succession, succession

LAYOUT = ZnodeLayout("/m", "root")
HEAD = Head("root", 5, 20, "aaaa", "1-" + "a" * 32)
OLDER = structs.replace(HEAD, revision=19, digest="1-" + "0" * 32)
BURNT = structs.replace(HEAD, term=6, revision=21, lineage="bbbb")
"""A later term that wrote nothing."""
WROTE = structs.replace(BURNT, revision=22, digest="1-" + "b" * 32)


def head(of: Head | None, name: str = "") -> Stored:
    """A head's znode; None: garbage."""
    path = f"{LAYOUT.place}/head-{name}" if of is None else LAYOUT.head(of)
    return Stored(path, b"" if of is None else encode_head(of), 0, of)


def witness(of: Head | None) -> Stored:
    return replace(head(of), path=LAYOUT.witness)


def found(*heads: Stored, recorded: Stored | None = None, there: bool = True, records: bool = True) -> StoredJournal:
    return StoredJournal("root", LAYOUT.place, there, records, heads, recorded)


NOTHING = found(there=False, records=False)


def judged(
    what: StoredJournal, *, ours: Remembered | None = None, known: bool = False, accepted: Any = ()
) -> Succession:
    return succession(what, LAYOUT.witness, ours=ours, known=known, accepted=accepted)


def refused(what: StoredJournal, ours: Remembered | None = None, known: bool = False) -> JournalDamaged:
    with pytest.raises(JournalDamaged) as refusal:
        judged(what, ours=ours, known=known)
    return refusal.value


def test_a_journal_that_never_was_begins_and_one_that_was_does_not() -> None:
    assert judged(NOTHING) == Succession(Head("root", 0, 0, "", NO_RECORDS))
    assert refused(NOTHING, known=True).loss is not None
    assert judged(NOTHING, ours=Remembered(HEAD)).last == HEAD


def test_a_head_that_its_witness_bears_out_is_gone_on_from_without_a_word() -> None:
    for ours in (None, Remembered(HEAD), Remembered(OLDER)):
        assert judged(found(head(HEAD), recorded=witness(HEAD)), ours=ours) == Succession(HEAD)


@pytest.mark.parametrize("recorded", [None, witness(None), witness(OLDER)])
def test_a_witness_that_is_gone_altered_or_older_is_named(recorded: Stored | None) -> None:
    end = judged(found(head(HEAD), recorded=recorded))
    assert end.last == HEAD
    assert len(end.log_lines) == 1
    assert LAYOUT.witness in end.log_lines[0]


@pytest.mark.parametrize(
    "what",
    [
        found(recorded=witness(HEAD)),
        found(recorded=witness(HEAD), there=False, records=False),
        found(head(HEAD), recorded=witness(HEAD), records=False),
        found(head(None), recorded=witness(HEAD)),
        found(head(OLDER), recorded=witness(HEAD)),
        found(head(None), head(None, "other"), recorded=witness(HEAD)),
        found(head(structs.replace(HEAD, digest="1-" + "c" * 32)), recorded=witness(HEAD)),
    ],
)
def test_what_the_witness_contradicts_takes_its_owner_or_who_leads(what: StoredJournal) -> None:
    error = refused(what)
    assert LAYOUT.place in str(error)
    last = judged(what, accepted=[error.loss]).last
    assert (last.term, last.revision) == (HEAD.term, HEAD.revision)
    assert (last.digest == NO_RECORDS) is not (what.there and what.records)
    assert judged(what, ours=Remembered(HEAD)).last.digest in (HEAD.digest, "1-" + "c" * 32)
    assert refused(what).loss == error.loss


def test_without_any_proof_no_loss_can_be_accepted_but_who_leads_goes_on() -> None:
    what = found(head(None), recorded=witness(None))
    assert refused(what).loss is None
    assert judged(what, ours=Remembered(HEAD)).last == HEAD


def test_of_several_heads_the_one_counts_that_the_witness_knows() -> None:
    end = judged(found(head(HEAD), head(None, "stray"), recorded=witness(HEAD)))
    assert end.last == HEAD
    assert f"{LAYOUT.place}/head-stray was made by another program" in end.log_lines[0]
    assert refused(found(head(HEAD), head(None, "stray"))).loss is not None


def test_an_older_pair_of_head_and_witness_is_seen_through_by_who_leads_alone() -> None:
    what = found(head(OLDER), recorded=witness(OLDER))
    assert judged(what).last == OLDER
    assert judged(what, ours=Remembered(HEAD)).last == HEAD


@pytest.mark.parametrize("what", [found(recorded=witness(BURNT)), found(head(None), recorded=witness(BURNT))])
def test_a_take_over_of_our_own_that_landed_late_is_no_later_term(what: StoredJournal) -> None:
    assert judged(what, ours=Remembered(HEAD, lineages=[BURNT.lineage])).last == BURNT
    assert refused(what, Remembered(HEAD)).loss is not None


def test_a_later_term_of_somebody_else_counts_if_it_wrote() -> None:
    burnt, wrote = found(head(BURNT), recorded=witness(BURNT)), found(head(WROTE), recorded=witness(WROTE))
    assert judged(burnt, ours=Remembered(HEAD)).last == BURNT
    with pytest.raises(TakeOverLost, match="wrote: term 6, revision 22"):
        judged(wrote, ours=Remembered(HEAD))
    for ours in (Remembered(HEAD, digests=[WROTE.digest]), Remembered(HEAD, lineages=[WROTE.lineage]), None):
        assert judged(wrote, ours=ours).last == WROTE

"""What must hold of all that watchers got: ordered, unique, complete but for gaps that were announced, resumable.

An act that was acknowledged has its event. An act whose outcome its writer does not know may have one. An event of
neither is a complaint as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.system.watches.account import Account
from tests.system.watches.watchers import Watcher
from tests.wire.support.events import Event

HANDLES = ("added", "replaced")
EPOCHS = ("epoch-granted",)
ACTS_OF_JOB = ("epoch-granted", "batch-committed", "savepoint-made")
WHICH = {
    "added": "version",
    "replaced": "version",
    "epoch-granted": "epoch",
    "batch-committed": "batch",
    "savepoint-made": "savepoint",
}
"""By the type of an event, the member that says which act it was."""


def complaints(handles: Watcher, epochs: Watcher, job: Watcher, account: Account, history: Sequence[Any]) -> list[str]:
    """Return all that is wrong, in words; an empty list if the guarantees held.

    The account's handles are in the store that ``handles`` watched; its epochs, batches and savepoints are those of the
    job that ``epochs`` watched as a store, and ``job`` as a job with the given ``history``.
    """
    of_versions = {act: int(act[1].rpartition(".")[2]) for act in account.acknowledged if act[0] in HANDLES}
    granted = {(each["kind"], str(each["epoch"])): each["revision"] for each in history if each["kind"] in EPOCHS}
    found = [f"handles: {each}" for each in _of_store(handles, account, HANDLES, of_versions)]
    found += [f"epochs: {each}" for each in _of_store(epochs, account, EPOCHS, granted)]
    return found + [f"job: {each}" for each in _of_job(job, account, history)]


def in_order(events: Sequence[Event], first: str) -> Iterator[str]:
    """Each event comes after the one before, and none comes twice."""
    place = Event(first).place
    for event in events:
        if event.place <= place:
            yield f"{event.type} {event.id} came after {place}"
        if event.data["revision"] != event.place[0]:
            yield f"{event.type} {event.id} has the data of revision {event.data['revision']}"
        place = event.place


def _of_store(
    watcher: Watcher, account: Account, kinds: Sequence[str], revisions: Mapping[tuple[str, str], int]
) -> Iterator[str]:
    """What is wrong with the events of these kinds. A missing one is excused by a gap around its revision."""
    yield from in_order(watcher.events, watcher.first)
    gaps = [(Event(after).place[0], revision) for after, revision in watcher.gaps]
    got = _counted(watcher, kinds)
    for act in account.acknowledged:
        if act[0] in kinds and not got[act]:
            revision = revisions.get(act)
            if revision is None or not any(after < revision <= until for after, until in gaps):
                yield f"{act} of revision {revision} was acknowledged and did not come; gaps: {gaps}"
    yield from _strange_or_repeated(got, account)


def _of_job(watcher: Watcher, account: Account, history: Sequence[Any]) -> Iterator[str]:
    yield from in_order(watcher.events, watcher.first)
    if watcher.gaps:
        yield f"a place was too old, though the history keeps all: {watcher.gaps}"
    if watcher.data != list(history):
        told = {each["id"] for each in watcher.data}
        kept = {each["id"] for each in history}
        yield f"it is not the history: {sorted(kept - told)} did not come, {sorted(told - kept)} are not kept"
    got = _counted(watcher, ACTS_OF_JOB)
    for act in account.acknowledged:
        if act[0] in ACTS_OF_JOB and not got[act]:
            yield f"{act} was acknowledged and did not come"
    yield from _strange_or_repeated(got, account)


def _counted(watcher: Watcher, kinds: Sequence[str]) -> Counter[tuple[str, str]]:
    return Counter((event.type, _which(event.type, event.data)) for event in watcher.events if event.type in kinds)


def _strange_or_repeated(got: Counter[tuple[str, str]], account: Account) -> Iterator[str]:
    """Each act has one event. Those that were not acknowledged are at most as many as the acts of unknown outcome."""
    yield from (f"{act} came {count} times" for act, count in got.items() if count > 1)
    strange = got.keys() - set(account.acknowledged)
    for kind in {kind for kind, _ in strange}:
        of_kind = sorted(which for each, which in strange if each == kind)
        if len(of_kind) > account.unknown.count(kind):
            yield f"{kind} {of_kind} came, and no writer did that"


def _which(kind: str, data: Any) -> str:
    return str(data[WHICH[kind]])

"""The checker of watches complains of each kind of fault, and of nothing that was announced or is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from milepost.errors import OutcomeUnknown
from milepost.wire import Code
from tests.system.watches.account import Account
from tests.system.watches.checker import complaints
from tests.system.watches.watchers import Watcher
from tests.wire.support.events import Event


def event(id_: str, kind: str, **data: Any) -> Event:
    return Event(id_, kind, {"revision": int(id_.partition(".")[0]), "id": id_, "kind": kind, **data})


def watcher(of: str, *events: Event) -> Watcher:
    found = Watcher((), of, "s", "10")
    found.events += events
    return found


class Seen:
    """What three watchers got of a handle that was added and replaced, and of a job that was led for one batch."""

    def __init__(self) -> None:
        self.handles = watcher("stores", event("11", "added", version="l.11"), event("12", "replaced", version="l.12"))
        self.epochs = watcher("stores", event("13", "epoch-granted", epoch=1))
        entries = event("13", "epoch-granted", epoch=1), event("14", "batch-committed", batch=1)
        self.job = watcher("jobs", *entries)
        self.history = [each.data for each in entries]
        self.account = Account(
            [("added", "l.11"), ("replaced", "l.12"), ("epoch-granted", "1"), ("batch-committed", "1")]
        )

    def complaints(self) -> list[str]:
        return complaints(self.handles, self.epochs, self.job, self.account, self.history)


def lost(seen: Seen) -> None:
    del seen.handles.events[0]


def lost_outside_of_the_gap(seen: Seen) -> None:
    del seen.handles.events[0]
    seen.handles.gaps.append(("11", 20))


def doubled(seen: Seen) -> None:
    seen.handles.events.append(seen.handles.events[1])


def out_of_order(seen: Seen) -> None:
    seen.job.events.reverse()


def never_done(seen: Seen) -> None:
    seen.handles.events.append(event("15", "replaced", version="l.15"))


def of_another_revision(seen: Seen) -> None:
    seen.epochs.events[0] = replace(seen.epochs.events[0], id="14")


def epoch_lost(seen: Seen) -> None:
    seen.epochs.events.clear()


def entry_lost(seen: Seen) -> None:
    del seen.job.events[1]


def entry_lost_from_the_history_too(seen: Seen) -> None:
    del seen.job.events[1], seen.history[1]


def place_of_a_job_too_old(seen: Seen) -> None:
    seen.job.gaps.append(("13", 20))


FAULTS = (
    lost,
    lost_outside_of_the_gap,
    doubled,
    out_of_order,
    never_done,
    of_another_revision,
    epoch_lost,
    entry_lost,
    entry_lost_from_the_history_too,
    place_of_a_job_too_old,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_checker_complains_of(fault: Callable[[Seen], None]) -> None:
    seen = Seen()
    assert seen.complaints() == []
    fault(seen)
    assert seen.complaints()


def test_the_checker_excuses_an_announced_gap_and_counts_on_no_act_of_unknown_outcome() -> None:
    seen = Seen()
    lost(seen)
    seen.handles.gaps.append(("10", 20))
    assert seen.complaints() == []
    for applied in (False, True):
        seen = Seen()
        with pytest.raises(OutcomeUnknown):
            seen.account.did("epoch-granted", never_answered, str)
        if applied:
            granted = event("15", "epoch-granted", epoch=2)
            seen.epochs.events.append(granted)
            seen.job.events.append(granted)
            seen.history.append(granted.data)
        assert seen.complaints() == []


def never_answered() -> str:
    raise OutcomeUnknown(Code.OUTCOME_UNKNOWN, "no answer came")

"""Clearing away what no retained checkpoint names."""

from __future__ import annotations

from contextlib import closing

import milepost
from milepost.spark.checkpoints.removals import Removals
from milepost.store import StateHandleStore


def names(handles: StateHandleStore) -> set[str]:
    return {handle.name for handle in handles.get_all_handles()}


def waited_for(removals: Removals) -> None:
    """All that was asked for so far is done."""
    removals._thread.submit(lambda: None).result(30.0)


def test_what_is_not_kept_is_removed_and_other_handles_are_left_alone(handles: StateHandleStore) -> None:
    for name in ("job", "layer-e1-0", "layer-e1-1", "layer-e2-0", "mine"):
        handles.add_and_lock(name, b"x")
    with closing(Removals(handles)) as removals:
        removals.sweep("layer-", {"layer-e2-0"})
        waited_for(removals)
    assert names(handles) == {"job", "layer-e2-0", "mine"}


def test_what_somebody_holds_is_left_and_removed_later(handles: StateHandleStore, client: milepost.Client) -> None:
    handles.add_and_lock("layer-e1-0", b"x")
    reader = client.session("reader").store(handles.name)
    reader.get_and_lock("layer-e1-0")
    with closing(Removals(handles)) as removals:
        removals.remove({"layer-e1-0"})
        waited_for(removals)
        assert names(handles) == {"layer-e1-0"}
        reader.release("layer-e1-0")
        removals.sweep("layer-", set())
        waited_for(removals)
    assert names(handles) == set()


def test_a_fenced_driver_removes_nothing(handles: StateHandleStore, client: milepost.Client) -> None:
    handles.add_and_lock("layer-e1-0", b"x")
    old = handles.under(handles.epoch or 0)
    handles.resign()
    client.session("successor").store(handles.name).campaign()
    with closing(Removals(old)) as removals:
        removals.remove({"layer-e1-0"})
        waited_for(removals)
    assert names(handles) == {"layer-e1-0"}

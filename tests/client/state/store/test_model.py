"""All stores against a plain model: whatever is done to them, and wherever the process ends meanwhile.

The driver of these tests keeps the list of commits that it published, as a real one does. It holds that each of these
that is kept can be opened as it was, by its id; and that nothing else is ever served in its place.
Each run plays the same examples; MILEPOST_EXPLORE_STATE=10 plays ten times as many, and others each time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from milepost.state.errors import CommitUnknown, Diverged, FilesError, StateDamaged, VersionNotFound, WriteUnknown
from milepost.state.store import (
    FileStateStoreProvider,
    LocalFiles,
    MemoryEngine,
    MemoryFiles,
    ProviderSettings,
    StateFiles,
    StateStore,
    StateStoreId,
)
from milepost.state.store.engines.rocksdb import RocksDBEngines
from milepost.state.store.format import files as state_files
from tests.client.state.support.failing_files import Crash, FailingFiles, Failure
from tests.client.state.support.model import Model, agree, pairs_of
from tests.client.state.support.trees import in_a_tree

pytestmark = pytest.mark.later

STORE = StateStoreId(3, 1)
KEEP = 5
FAMILIES = {"default": False, "lists": True, "other": False}

keys = st.sampled_from([b"", b"\0", b"a", b"a\0", b"ab", b"b", b"\xff", b"\xff\xff"]) | st.binary(max_size=2)
values = st.binary(max_size=3)
bounds = st.none() | keys
nothing = st.none()
families = st.sampled_from(list(FAMILIES))
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), families, keys, values),
        st.tuples(st.just("merge"), st.just("lists"), keys, st.lists(values, max_size=3)),
        st.tuples(st.just("put_list"), st.just("lists"), keys, st.lists(values, min_size=1, max_size=3)),
        st.tuples(st.just("remove"), families, keys, nothing),
        st.tuples(st.just("delete_range"), families, bounds, bounds),
        st.tuples(st.just("drop"), st.sampled_from(["lists", "other"]), nothing, nothing),
        st.tuples(st.just("scan"), families, bounds, bounds),
        st.tuples(st.just("hold"), families, nothing, nothing),
    ),
    max_size=12,
)
failures = st.lists(st.sampled_from(Failure), min_size=1, max_size=3)


class Stores(RuleBasedStateMachine):
    """One store, its driver, and all that can happen to both."""

    engine = "heap"
    place = "memory"
    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.ending = ExitStack()
        self.patched = patch.object(state_files, "BATCH_BYTES", 12)  # so that a few rows are several record batches
        self.patched.start()
        self.directory = Path(tempfile.mkdtemp())
        self.files = FailingFiles(self.place_of_files())
        self.engines: Any = (
            MemoryEngine if self.engine == "heap" else RocksDBEngines(self.directory / "cache", memory_bytes=1 << 23)
        )
        self.published: list[tuple[int, str | None]] = [(0, None)]
        self.states: dict[tuple[int, str | None], Model] = {(0, None): Model()}
        self.pins: dict[str, tuple[int, str | None]] = {}
        self.cleaned_at = 0

    @initialize(
        grace=st.sampled_from([0.0, 1e9]), part=st.sampled_from([20, 1 << 20]), merge=st.sampled_from([1, 3, 5])
    )
    def begin(self, grace: float, part: int, merge: int) -> None:
        self.settings = ProviderSettings(
            engines=self.engines,
            min_deltas_for_snapshot=2,
            versions_to_keep=KEEP,
            maintenance_interval=None,
            part_bytes=part,
            merge_after=merge,
            grace=grace,
        )
        self.provider = self.opened()

    def place_of_files(self) -> StateFiles:
        if self.place == "tree":
            return self.ending.enter_context(in_a_tree(self.url, "model"))
        return MemoryFiles() if self.place == "memory" else LocalFiles(self.directory / "files")

    def opened(self) -> FileStateStoreProvider:
        provider = FileStateStoreProvider(self.files, self.settings)
        provider.init(STORE)
        return provider

    def teardown(self) -> None:
        if hasattr(self, "provider"):
            self.provider.close()
        self.ending.close()
        shutil.rmtree(self.directory)
        self.patched.stop()

    def commits(self) -> list[tuple[int, str | None]]:
        names = [info.name.rpartition("/")[2] for info in self.files.list(STORE.directory)]
        return [(int(name.split("_")[0]), name[:-6].split("_")[1]) for name in names if name.endswith(".delta")]

    def is_torn(self, commit: tuple[int, str | None]) -> bool:
        return f"{STORE.directory}/{commit[0]}_{commit[1]}.delta" in self.files.torn

    def change(self, store: StateStore, todo: list[Any]) -> Model:
        """Change a store and a copy of its model, and hold one against the other."""
        model = self.states[self.published[store.version]] if store.version < len(self.published) else Model()
        model = model.copy()
        held = []
        for family, multiple in FAMILIES.items():
            store.create_column_family_if_absent(family, multiple_values_per_key=multiple)
            model.families.setdefault(family, (multiple, {}))
        for act, family, first, second in todo:
            if family not in model.families:
                continue
            multiple, now = model.families[family]
            if act == "put":
                store.put(first, second, family)
                now[first] = [second]
            elif act == "merge":
                store.merge_list(first, second, family)
                if second:
                    now.setdefault(first, []).extend(second)
            elif act == "put_list":
                store.put_list(first, second, family)
                now[first] = list(second)
            elif act == "remove":
                store.remove(first, family)
                now.pop(first, None)
            elif act == "delete_range":
                store.delete_range(first, second, family)
                for key in {key for key, _ in model.pairs(family, first or b"", second)}:
                    del now[key]
            elif act == "drop":
                assert store.remove_column_family_if_exists(family)
                assert not store.remove_column_family_if_exists(family)
                del model.families[family]
            elif act == "scan":
                self.compare_scans(store, model, family, first, second)
            elif act == "hold":  # what was asked for stays as it was, whatever is written later
                held.append((pairs_of(store, family, multiple), model.pairs(family)))
        for pairs, expected in held:
            assert list(pairs) == expected
        agree(store, model)
        return model

    @staticmethod
    def compare_scans(store: StateStore, model: Model, family: str, start: bytes | None, end: bytes | None) -> None:
        multiple, now = model.families[family]
        scan = store.range_scan_with_multi_values if multiple else store.range_scan
        assert list(scan(start, end, family)) == model.pairs(family, start or b"", end)
        prefix = start or b""
        begin = store.prefix_scan_with_multi_values if multiple else store.prefix_scan
        assert list(begin(prefix, family)) == [pair for pair in model.pairs(family) if pair[0].startswith(prefix)]
        assert store.key_exists(prefix, family) == (prefix in now)

    @rule(todo=changes)
    def commit(self, todo: list[Any]) -> None:
        store = self.provider.get_store(*self.published[-1])
        model = self.change(store, todo)
        version = store.commit()
        info = store.checkpoint_info
        assert (version, info.version, info.base_id) == (len(self.published), version, self.published[-1][1])
        assert (store.metrics.num_keys, store.has_committed) == (model.count, True)
        self.published.append((version, info.id))
        self.states[version, info.id] = model

    @rule(todo=changes)
    def abort(self, todo: list[Any]) -> None:
        store = self.provider.get_store(*self.published[-1])
        self.change(store, todo)
        store.abort()
        assert not store.has_committed

    @rule(todo=changes, failing=failures, again=st.booleans())
    def commit_that_fails(self, todo: list[Any], failing: list[Failure], again: bool) -> None:
        """A commit is published only where it returned; whatever else it left is no version of the driver's."""
        store = self.provider.get_store(*self.published[-1])
        model = self.change(store, todo)
        before = set(self.commits())
        self.files.creations.extend(failing)
        returned = False
        try:
            try:
                store.commit()
                returned = True
            except (CommitUnknown, FilesError) as error:
                if isinstance(error, FilesError):
                    assert set(self.commits()) == before
                if again:
                    store.commit()
                    returned = True
        except Crash:
            self.provider = self.opened()
        except (WriteUnknown, FilesError, StateDamaged):
            store.abort()
        self.files.creations.clear()
        left = set(self.commits()) - before
        assert len(left) <= 1
        if returned:
            assert left == {(store.version + 1, store.checkpoint_info.id)}
            self.published.extend(left)
        for commit in left:
            self.states[commit] = model

    @rule(todo=changes, back=st.integers(1, 3))
    def commit_by_a_zombie(self, todo: list[Any], back: int) -> None:
        """A task of another driver, that knows an older version as the newest: it disturbs nobody."""
        place = max(len(self.published) - 1 - back, 0)
        if place < self.oldest:
            return
        zombie = self.opened()
        store = zombie.get_store(*self.published[place])
        model = self.change(store, todo)
        version = store.commit()
        self.states[version, store.checkpoint_info.id] = model
        zombie.do_maintenance()
        self.cleaned_at = max(self.cleaned_at, version)  # at most the newest that is published
        zombie.close()

    @rule()
    def reopen(self) -> None:
        self.provider.close()
        self.provider = self.opened()

    @rule(failing=st.lists(st.sampled_from(Failure), max_size=3), deletions=st.none() | st.integers(0, 4))
    def maintain(self, failing: list[Failure], deletions: int | None) -> None:
        self.files.creations.extend(failing)
        self.files.deletions_before_crash = deletions
        self.cleaned_at = len(self.published) - 1
        try:
            self.provider.do_maintenance()
        except Crash:
            self.provider = self.opened()
        except (WriteUnknown, FilesError, StateDamaged):
            assert failing
        self.files.creations.clear()
        self.files.deletions_before_crash = None

    @property
    def oldest(self) -> int:
        """The oldest version that is kept for sure."""
        return max(self.cleaned_at - KEEP + 1, 0)

    @rule(data=st.data(), upgrade=st.booleans())
    def read(self, data: st.DataObject, upgrade: bool) -> None:
        commit = data.draw(st.sampled_from(self.published))
        try:
            store = self.provider.get_read_store(*commit)
        except VersionNotFound:
            assert 0 < commit[0] < self.oldest
            assert commit not in self.pins.values()
            return
        with_another = self.provider.get_read_store(*commit)
        agree(store, self.states[commit])
        if upgrade:
            writable = self.provider.upgrade_read_store_to_write_store(store)
            agree(writable, self.states[commit])
            assert writable.metrics.num_keys == self.states[commit].count
            writable.put(b"new", b"new")
            writable.abort()
        store.release()
        agree(with_another, self.states[commit])
        with_another.release()

    @rule(data=st.data())
    def read_without_a_driver(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(1, len(self.published)))
        ids = [commit for commit in self.commits() if commit[0] == version]
        if len(ids) > 1:
            with pytest.raises(Diverged) as raised:
                self.provider.get_read_store(version)
            assert (raised.value.version, [(version, id) for id in raised.value.ids]) == (version, sorted(ids))
            return
        try:
            store = self.provider.get_read_store(version)
        except VersionNotFound:
            assert not ids or version < self.oldest
        except StateDamaged:
            assert all(self.is_torn(commit) for commit in ids)
        else:
            assert not self.is_torn(ids[0])
            agree(store, self.states[ids[0]])
            store.release()

    @rule(data=st.data())
    def follow_the_feed(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(self.oldest, len(self.published) - 1))
        start = data.draw(st.integers(self.oldest, end))
        if start == end:
            return
        feed = list(self.provider.changes(start + 1, end, id=self.published[end][1]))
        assert [(one.version) for one in feed] == sorted(one.version for one in feed)
        target = self.states[self.published[end]]
        model = self.states[self.published[start]].copy()
        for change in feed:
            model.families.setdefault(change.family, (FAMILIES[change.family], {}))
            model.see(change)
        assert model.keys("default") == target.keys("default")  # which is never removed

    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        commit = data.draw(st.sampled_from(self.published[self.oldest :]))
        start = data.draw(st.integers(max(self.oldest, 1), max(commit[0], 1)))
        try:
            store = self.provider.replay_read_state_from_snapshot(start, *commit)
        except VersionNotFound:
            return  # there is no snapshot of that version
        except StateDamaged:
            assert any(
                name.endswith(".snapshot") for name in self.files.torn
            )  # and only of this snapshot; any other way goes round it
            return
        agree(store, self.states[commit])
        store.release()

    @rule(name=st.sampled_from(["one", "two"]), data=st.data())
    def pin(self, name: str, data: st.DataObject) -> None:
        if name in self.pins:
            self.provider.unpin(name)
            del self.pins[name]
        elif len(self.published) > 1:
            self.pins[name] = data.draw(st.sampled_from(self.published[max(self.oldest, 1) :] or self.published[-1:]))
            self.provider.pin(name, *self.pins[name])

    @precondition(lambda self: len(self.published) > 1)
    @invariant()
    def what_is_published_is_there(self) -> None:
        """The newest, the oldest that is kept, and all pins, read by somebody who has nothing loaded."""
        fresh = self.opened()
        for commit in {self.published[-1], self.published[self.oldest], *self.pins.values()}:
            store = fresh.get_read_store(*commit)
            agree(store, self.states[commit])
            store.release()
        fresh.close()


PLACES = [("heap", "memory"), ("heap", "local"), ("rocksdb", "memory"), ("heap", "tree")]
EXAMPLES = {("heap", "memory"): 40, ("heap", "tree"): 2}


@pytest.mark.parametrize(("engine", "place"), PLACES)
def test_stores_are_as_their_model(engine: str, place: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("service").url if place == "tree" else ""
    machine = type(f"Stores_{engine}_{place}", (Stores,), {"engine": engine, "place": place, "url": url})
    examples = EXAMPLES.get((engine, place), 8)
    explored = int(os.environ.get("MILEPOST_EXPLORE_STATE", "0"))
    chosen = settings(
        max_examples=examples * max(explored, 1), stateful_step_count=30, deadline=None, derandomize=not explored
    )
    run_state_machine_as_test(machine, settings=chosen)

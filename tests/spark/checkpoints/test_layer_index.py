"""What a checkpoint stores anew, and what of the older layers it leans on."""

from __future__ import annotations

import random

from milepost.spark.checkpoints.layer_index import INLINE_BYTES, MAX_LAYERS, SPARSE, LayerIndex, Plan
from milepost.spark.checkpoints.snapshot import Stat
from milepost.spark.record import Layer

LARGE = INLINE_BYTES + 1


class Storing:
    """Carries plans out, in memory."""

    def __init__(self) -> None:
        self.layer_index = LayerIndex()
        self.layers: dict[str, dict[str, Stat]] = {}

    def take(self, files: dict[str, Stat]) -> Plan:
        plan = self.layer_index.plan(files)
        layer = None
        if plan.pack:
            name = f"layer-{len(self.layers)}"
            self.layers[name] = dict(plan.pack)
            layer = Layer(name, "v", sum(stat.size for stat in plan.pack.values()), len(plan.pack))
        self.layer_index.stored(plan, files, layer)
        return plan

    def restored(self, plan: Plan, files: dict[str, Stat]) -> dict[str, Stat]:
        """What a restore of this checkpoint puts together: layers from old to new, then what is inline."""
        together: dict[str, Stat] = {}
        for layer in plan.keep:
            together.update(self.layers[layer.name])
        together.update(plan.pack)
        together.update({path: files[path] for path in plan.inline})
        return together


def test_a_little_travels_inline_and_is_stored_with_the_next_layer() -> None:
    storing = Storing()
    files = {"a": Stat(10, 1)}
    assert storing.take(files) == Plan(("a",), {}, ())
    files["b"] = Stat(20, 1)
    assert storing.take(files) == Plan(("a", "b"), {}, ())
    files["c"] = Stat(LARGE, 1)
    assert storing.take(files) == Plan((), files, ())
    assert storing.take(files).pack == {}


def test_only_what_is_new_is_stored() -> None:
    storing = Storing()
    storing.take({"a": Stat(LARGE, 1)})
    plan = storing.take({"a": Stat(LARGE, 1), "b": Stat(LARGE, 1)})
    assert set(plan.pack) == {"b"}
    assert [layer.name for layer in plan.keep] == ["layer-0"]


def test_a_file_that_was_written_anew_is_stored_anew() -> None:
    storing = Storing()
    storing.take({"a": Stat(LARGE, 1), "b": Stat(LARGE, 1)})
    assert set(storing.take({"a": Stat(LARGE, 2), "b": Stat(LARGE, 1)}).pack) == {"a"}


def test_a_layer_whose_files_are_all_gone_is_dropped() -> None:
    storing = Storing()
    storing.take({"a": Stat(LARGE, 1)})
    storing.take({"a": Stat(LARGE, 1), "b": Stat(LARGE, 1)})
    assert [layer.name for layer in storing.take({"b": Stat(LARGE, 1)}).keep] == ["layer-1"]


def test_a_layer_that_is_mostly_dead_is_merged_into_the_next() -> None:
    storing = Storing()
    storing.take({str(n): Stat(LARGE, 1) for n in range(SPARSE + 1)})
    plan = storing.take({"0": Stat(LARGE, 1), "new": Stat(LARGE, 1)})
    assert set(plan.pack) == {"0", "new"}
    assert plan.keep == ()


def test_layers_do_not_become_too_many() -> None:
    storing = Storing()
    files: dict[str, Stat] = {}
    for n in range(5 * MAX_LAYERS):
        files[str(n)] = Stat(LARGE, 1)
        plan = storing.take(files)
        assert len(plan.keep) + 1 <= MAX_LAYERS


def test_what_was_restored_is_not_stored_again() -> None:
    layer_index = LayerIndex()
    files = {"a": Stat(LARGE, 5), "b": Stat(LARGE, 5)}
    layer_index.restored(Layer("old", "v", 2 * LARGE, 2), files)
    assert layer_index.plan(files).pack == {}
    assert [layer.name for layer in layer_index.plan(files).keep] == ["old"]


def test_any_history_can_be_put_together_again() -> None:
    source = random.Random(7)
    storing, files = Storing(), dict[str, Stat]()
    stored = live = 0
    for step in range(600):
        for _ in range(source.randrange(4)):
            files[f"f{source.randrange(200)}"] = Stat(source.choice((50, 5000, 50_000)), step)
        for path in source.sample(sorted(files), min(len(files), source.randrange(4))):
            del files[path]
        plan = storing.take(dict(files))
        together = storing.restored(plan, files)
        assert {path: together[path] for path in files} == files
        stored = sum(stat.size for layer in plan.keep for stat in storing.layers[layer.name].values())
        live = sum(stat.size for stat in files.values())
        assert stored <= SPARSE * live + INLINE_BYTES + SPARSE * 50_000

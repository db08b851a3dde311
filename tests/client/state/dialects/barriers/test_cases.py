"""The cases of the paper on asynchronous barrier snapshots, each step by step. docs/state.md names the test of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from milepost.state.dialects.barriers import Alignment, Edge, FileSnapshots, Graph, Node, Pipeline, Record
from milepost.state.errors import EpochTaken, InvalidUse, PipelineStopped
from milepost.state.key_groups import KeyGroups
from milepost.state.store import MemoryFiles
from tests.client.state.dialects.barriers.checker import Checker, Delivered, check_results
from tests.client.state.dialects.barriers.graphs import diamond, islands, loop, records, rescaled
from tests.client.state.dialects.barriers.simulator import Run
from tests.client.state.support.failing_files import FailingFiles, Failure


def count(state: int | None, record: Record) -> tuple[int, list[Record]]:
    """Count the records of a key, and send the count on."""
    return (state or 0) + 1, [Record(record.key, (state or 0) + 1)]


def once_round(state: int | None, record: Record) -> tuple[int, list[Record]]:
    """Count the records of a key, and send each on with a value lower by one."""
    return (state or 0) + 1, [Record(record.key, record.value - 1)]


class Bench:
    """A graph, its files, and the pipelines that are made of it one after the other."""

    def __init__(self, graph: Graph, alignment: Alignment = Alignment.EXACTLY_ONCE) -> None:
        self.graph, self.alignment = graph, alignment
        self.files = FailingFiles(MemoryFiles())
        self.store = FileSnapshots(self.files)
        self.delivered = Delivered()
        self.restore()

    def restore(self, graph: Graph | None = None) -> None:
        """Forget all that is not in files."""
        self.graph = graph or self.graph
        self.pipeline = Pipeline(self.graph, self.store, self.delivered, self.alignment)

    def do(self, *steps: str) -> None:
        """Do these steps, each of which has to be possible."""
        for step in steps:
            act, who, place = (*step.split(), "")[:3]
            assert (act, who, place) in self.pipeline.steps(), step
            self.pipeline.perform((act, who, place))

    def can(self, step: str) -> bool:
        """Tell whether a step is possible now."""
        return (*step.split(), "")[:3] in self.pipeline.steps()

    def do_all(self, *acts: str) -> None:
        """Do what there is to do of these acts, or of all, until there is nothing."""
        while steps := [step for step in self.pipeline.steps() if not acts or step[0] in acts]:
            self.pipeline.perform(steps[0])

    def values(self) -> list[Any]:
        """Return the values that were delivered, sorted."""
        return sorted(record.value for some in self.delivered.records.values() for record in some)


def two_inputs() -> Graph:
    """Two sources of two records each, and one task that counts them."""
    nodes = [Node(name, splits={name: [Record("k", 0)] * 2}) for name in ("a", "b")]
    ends = [Edge("a", "count"), Edge("b", "count"), Edge("count", "out")]
    return Graph([*nodes, Node("count", count), Node("out")], ends)


def up_to_the_first_barrier(alignment: Alignment) -> Bench:
    """Return a pipeline whose barrier has passed ``a``, with a record before and one behind it, but not yet ``b``."""
    bench = Bench(two_inputs(), alignment)
    bench.do("emit a-0 a", "emit b-0 b", "take count-0 a-0", "take count-0 b-0")
    bench.pipeline.trigger()
    bench.do("take a-0 coordinator", "emit a-0 a", "emit b-0 b", "take count-0 a-0")
    return bench


def test_a_task_blocks_the_inputs_whose_barrier_has_come() -> None:
    bench = up_to_the_first_barrier(Alignment.EXACTLY_ONCE)
    assert not bench.can("take count-0 a-0")
    bench.do("take count-0 b-0", "take b-0 coordinator")
    assert not bench.can("take count-0 a-0")
    bench.do("take count-0 b-0")
    assert bench.can("take count-0 a-0")
    bench.do_all()
    assert bench.store.latest()[1]["count-0"].state == {"k": 3}
    bench.restore()
    bench.pipeline.run(0)
    assert bench.values() == [1, 2, 3, 4]


def test_without_alignment_records_count_twice() -> None:
    bench = up_to_the_first_barrier(Alignment.AT_LEAST_ONCE)
    bench.do("take count-0 a-0", "take count-0 b-0", "take b-0 coordinator", "take count-0 b-0")
    bench.do_all()
    epoch, parts = bench.store.latest()
    assert (epoch, parts["a-0"].state, parts["count-0"].state) == (1, {"a": 1}, {"k": 4})
    bench.restore()
    bench.pipeline.run(0)
    assert bench.values() == [1, 2, 3, 4, 5]  # the second record of a was counted, and is read again


def test_an_unaligned_snapshot_has_what_its_barrier_overtook() -> None:
    bench = up_to_the_first_barrier(Alignment.UNALIGNED)
    assert bench.can("take count-0 a-0")  # nothing waits
    bench.do("take count-0 a-0", "take count-0 b-0", "take b-0 coordinator", "take count-0 b-0")
    bench.do_all()
    part = bench.store.latest()[1]["count-0"]
    assert (part.state, part.log) == ({"k": 2}, [("b-0", Record("k", 0))])
    bench.restore()
    assert not bench.can("take count-0 a-0")
    bench.do("emit a-0 a")
    assert not bench.can("take count-0 a-0")  # what was in transit comes first
    bench.do("refill count-0", "take count-0 a-0")
    bench.pipeline.run(0)
    assert bench.values() == [1, 2, 3, 4]


def snapshots_of(graph: Graph, seed: int) -> list[dict[str, Any]]:
    """Run a graph with the checker beside, and return the logs of its tasks in each snapshot."""
    bench, random = Bench(graph), Random(seed)
    pipeline = bench.pipeline
    checker = Checker(graph, pipeline, bench.store, forward=False)
    found: list[dict[str, Any]] = []
    last = None
    for number in range(20_000):
        steps = pipeline.steps()
        if not steps and last is not None and pipeline.epoch > last:
            check_results(graph, bench.delivered, bench.store.latest()[1])
            return found
        if steps and (pipeline.open or number % 15):
            checker.perform(random.choice(steps))
        else:
            last = last if steps else pipeline.epoch
            pipeline.trigger()
        if pipeline.epoch > len(found):
            found.append({name: part.log for name, part in bench.store.latest()[1].items()})
    raise AssertionError("it does not end")


def test_an_acyclic_graph_has_no_records_in_transit() -> None:
    for seed in range(5):
        logs = snapshots_of(diamond(), seed)
        assert len(logs) > 2
        assert not any(log for one in logs for log in one.values())


def test_a_loop_logs_its_back_edges_and_nothing_else() -> None:
    logs = [one for seed in range(5) for one in snapshots_of(loop(30), seed)]
    senders = {(sender[:-2], name[:-2]) for one in logs for name, log in one.items() for sender, _ in log}
    assert senders == {("body", "head")}


def test_the_log_of_a_loop_is_refilled() -> None:
    """One record goes round; it is on the back edge when the snapshot is taken, and is not lost with the channel."""
    nodes = [Node("s", splits={"a": [Record("k", 3)]}), Node("round", once_round), Node("out")]
    ends = [Edge("s", "round"), Edge("round", "round", lambda one: one.value > 0)]
    bench = Bench(Graph(nodes, [*ends, Edge("round", "out", lambda one: one.value == 0)]))
    bench.do("emit s-0 a", "take round-0 s-0")
    bench.pipeline.trigger()
    bench.do("take s-0 coordinator", "take round-0 s-0")
    assert not bench.can("save round-0")  # until the barrier has come round
    bench.do("take round-0 round-0", "take round-0 round-0")
    bench.do_all("save", "take", "complete")
    part = bench.store.latest()[1]["round-0"]
    assert (part.state, part.log) == ({"k": 1}, [("round-0", Record("k", 2))])
    bench.restore()
    bench.pipeline.run(0)
    assert bench.values() == [0]
    assert bench.store.latest()[1]["round-0"].state == {"k": 3}


def test_parts_that_nothing_connects_have_one_snapshot() -> None:
    """It is complete only when all parts have theirs, and then they go back together."""
    bench = Bench(islands())
    bench.do("emit s-0 a", "take one-0 s-0", "emit t-0 b")
    bench.pipeline.trigger()
    for _ in range(3):
        for step in [step for step in bench.pipeline.steps() if step[1] in ("s-0", "one-0", "out-0")]:
            bench.pipeline.perform(step) if step[0] != "emit" else None
    assert bench.pipeline.epoch == 0
    bench.do_all("take", "save", "complete")
    assert bench.store.latest()[0] == 1
    bench.restore()
    bench.pipeline.run(1)
    check_results(bench.graph, bench.delivered, bench.store.latest()[1])
    assert all(snapshots_of(islands(), seed) for seed in range(3))


@pytest.mark.parametrize("after", range(1, 6))
def test_any_number_of_tasks_goes_on_from_a_snapshot(after: int) -> None:
    def graph(tasks: int) -> Graph:
        splits = {f"split-{at}": [Record(f"k{number % 7}", at) for number in range(10)] for at in range(4)}
        nodes = [Node("s", splits=splits, tasks=tasks), Node("count", count, tasks=tasks), Node("out", tasks=tasks)]
        return Graph(nodes, [Edge("s", "count"), Edge("count", "out")])

    bench = Bench(graph(3))
    for at in range(4):
        owner = next(name for name, task in bench.pipeline.tasks.items() if f"split-{at}" in task.state)
        for _ in range(at + 2):
            bench.do(f"emit {owner} split-{at}")
    bench.pipeline.trigger()
    bench.do_all("take", "save", "complete", "deliver")
    assert bench.pipeline.epoch == 1
    before = bench.store.latest()[1]
    bench.restore(graph(after))
    groups = KeyGroups()
    for name, task in bench.pipeline.tasks.items():
        mine = groups.groups_of(int(name.rpartition("-")[2]), after)
        assert all(groups.group(key.encode()) in mine for key in task.state)
    held = {key: value for task in bench.pipeline.tasks.values() for key, value in task.state.items()}
    assert held == {key: value for part in before.values() for key, value in part.state.items()}
    bench.pipeline.run(after)
    counted = [(record.key, record.value) for some in bench.delivered.records.values() for record in some]
    wanted = [(f"k{number % 7}", 0) for _ in range(4) for number in range(10)]
    assert sorted(counted) == sorted((key, at) for key, _ in set(wanted) for at in range(1, wanted.count((key, 0)) + 1))


def ready_to_complete() -> Bench:
    """Return a pipeline all of whose tasks have acknowledged a snapshot with two records of output."""
    bench = Bench(two_inputs())
    bench.do("emit a-0 a", "take count-0 a-0", "take out-0 count-0", "emit a-0 a", "take count-0 a-0")
    bench.pipeline.trigger()
    bench.do_all("take", "save")
    assert bench.can("complete coordinator")
    return bench


def test_output_is_delivered_when_its_snapshot_is_complete() -> None:
    bench = ready_to_complete()
    bench.do("emit b-0 b", "take count-0 b-0", "take out-0 count-0")  # belongs to the next
    assert not bench.can("deliver coordinator")
    bench.do("complete coordinator")
    assert bench.values() == []
    bench.do("deliver coordinator")
    assert bench.values() == [1, 2]
    bench.pipeline.run(3)
    assert bench.values() == [1, 2, 3, 4]


def test_output_of_a_snapshot_that_is_not_complete_is_made_again() -> None:
    bench = ready_to_complete()
    bench.restore()
    assert bench.pipeline.epoch == 0
    bench.pipeline.run(3)
    assert bench.values() == [1, 2, 3, 4]


@pytest.mark.parametrize("delivered", [False, True])
def test_output_of_a_complete_snapshot_is_delivered_after_a_restore(delivered: bool) -> None:
    """Also if it was delivered before, since who died could not say so: delivering does nothing the second time."""
    bench = ready_to_complete()
    bench.do("complete coordinator", *(["deliver coordinator"] if delivered else []))
    bench.restore()
    bench.do("deliver coordinator")
    assert bench.values() == [1, 2]
    bench.pipeline.run(3)
    assert bench.values() == [1, 2, 3, 4]


def test_the_next_epoch_waits_until_all_is_delivered() -> None:
    bench = ready_to_complete()
    bench.do("complete coordinator")
    bench.pipeline.trigger()
    bench.do_all("take", "save")
    assert not bench.can("complete coordinator")
    bench.do("deliver coordinator", "complete coordinator")
    assert bench.pipeline.epoch == 2


def test_the_coordinator_dies_between_the_acknowledgements_and_the_completion() -> None:
    bench = ready_to_complete()
    bench.pipeline.dead.add("coordinator")
    bench.do_all()  # the tasks go on
    assert bench.store.latest() == (0, {})
    with pytest.raises(PipelineStopped, match="dead"):
        bench.pipeline.trigger()
    bench.restore()
    bench.pipeline.run(4)
    assert bench.values() == [1, 2, 3, 4]


@pytest.mark.parametrize("task", ["a-0", "count-0", "out-0"])
def test_a_task_dies_and_all_go_back_to_the_last_snapshot(task: str) -> None:
    bench = ready_to_complete()
    bench.do("complete coordinator", "deliver coordinator")
    bench.do("emit b-0 b", "take count-0 b-0")
    bench.pipeline.dead.add(task)
    bench.pipeline.trigger()
    bench.do_all()
    assert bench.pipeline.epoch == 1  # the snapshot never completes
    with pytest.raises(PipelineStopped, match=task):
        bench.pipeline.run(0)
    bench.restore()
    assert bench.pipeline.tasks["count-0"].state == {"k": 2}
    assert bench.pipeline.tasks["b-0"].state == {"b": 0}
    bench.pipeline.run(4)
    assert bench.values() == [1, 2, 3, 4]


def test_who_fails_in_a_function_is_dead() -> None:
    broken = [True]

    def process(state: Any, record: Record) -> tuple[Any, list[Record]]:
        if broken:
            raise ZeroDivisionError
        return count(state, record)

    graph = two_inputs()
    bench = Bench(Graph([*graph.nodes[:2], Node("count", process), graph.nodes[3]], graph.edges))
    with pytest.raises(ZeroDivisionError):
        bench.pipeline.run(0)
    assert bench.pipeline.dead == {"count-0"}
    broken.clear()
    bench.restore()
    bench.pipeline.run(0)
    assert bench.values() == [1, 2, 3, 4]


@pytest.mark.parametrize("failure", [Failure.REFUSED, Failure.LOST])
def test_a_snapshot_that_cannot_be_saved_is_given_up_and_the_next_one_works(failure: Failure) -> None:
    bench = Bench(two_inputs())
    bench.pipeline.trigger()
    bench.do("emit a-0 a", "take a-0 coordinator")
    bench.files.creations.extend([failure] * 2)
    bench.do("save a-0")
    bench.files.creations.clear()
    assert not bench.pipeline.open
    bench.do_all()
    assert bench.pipeline.epoch == 0
    bench.pipeline.run(0)
    assert bench.values() == [1, 2, 3, 4]


def test_a_snapshot_that_takes_too_long_is_given_up_for_the_next() -> None:
    """Its barriers and acknowledgements still come, and count for nothing."""
    bench = up_to_the_first_barrier(Alignment.EXACTLY_ONCE)
    bench.pipeline.trigger()
    bench.do("take a-0 coordinator", "take b-0 coordinator", "save a-0")
    assert not bench.pipeline._saved
    bench.do_all()
    assert (bench.pipeline.attempt, bench.pipeline.epoch) == (2, 1)
    assert bench.store.latest()[1]["a-0"].state == {"a": 2}
    bench.pipeline.run(0)
    assert bench.values() == [1, 2, 3, 4]


def test_of_two_coordinators_one_completes_the_epoch() -> None:
    bench = ready_to_complete()
    paused = bench.pipeline
    bench.restore()
    bench.do("emit b-0 b")
    bench.pipeline.trigger()
    bench.do_all("take", "save", "complete")
    with pytest.raises(EpochTaken, match="epoch 1"):
        paused.perform(("complete", "coordinator", ""))
    assert paused.dead == {"coordinator"}
    assert not [step for step in paused.steps() if step[0] == "deliver"]
    bench.pipeline.run(0)
    assert bench.values() == [1, 2, 3, 4]


def test_sources_that_have_ended_still_pass_barriers() -> None:
    nodes = [Node("short", splits={"a": []}), Node("none", splits={}), Node("long", splits={"b": records(30)})]
    ends = [Edge("short", "count"), Edge("none", "count"), Edge("long", "count"), Edge("count", "out")]
    bench = Bench(Graph([*nodes, Node("count", count), Node("out")], ends))
    bench.do(*["emit long-0 b"] * 4)
    bench.pipeline.trigger()
    bench.do_all("take", "save", "complete", "deliver")
    assert bench.pipeline.epoch == 1
    bench.do_all("emit", "take")
    assert bench.pipeline.epoch == 1  # all have ended, and the last snapshot is yet to come
    bench.pipeline.run(0)
    assert bench.pipeline.epoch > 1
    assert len(bench.values()) == 30
    bench.restore()
    bench.pipeline.run(0)  # nothing is left, and nothing comes twice
    assert len(bench.values()) == 30


def test_records_that_are_changed_by_who_handles_them_stay_what_they_are() -> None:
    def spoil(_: Any, record: Record) -> tuple[Any, list[Record]]:
        record.value.append("spoilt")
        return record.value, [record]

    split = [Record("k", ["fine"])]
    nodes = [Node("s", splits={"a": split}), Node("x", spoil), Node("y", lambda _, one: (one.value, []))]
    bench = Bench(Graph(nodes, [Edge("s", "x"), Edge("s", "y")]))
    bench.pipeline.run(0)
    assert split == [Record("k", ["fine"])]
    assert bench.store.latest()[1]["y-0"].state == {"k": ["fine"]}


def as_graph(nodes: Sequence[Node], *ends: tuple[str, str]) -> Callable[[], Graph]:
    """Return what makes a graph."""
    return lambda: Graph(nodes, [Edge(*one) for one in ends])


SOURCE, SINK, OPERATOR = Node("s", splits={}), Node("out"), Node("o", count)


@pytest.mark.parametrize(
    "graph",
    [
        as_graph([SOURCE, SOURCE]),
        as_graph([SOURCE, SINK], ("s", "out"), ("s", "out")),
        as_graph([SOURCE, SINK], ("s", "nowhere")),
        as_graph([SOURCE, SINK], ("nowhere", "out")),
        as_graph([SOURCE, SINK], ("s", "out"), ("s", "s")),
        as_graph([SOURCE, SINK, OPERATOR], ("s", "out"), ("out", "o")),
        as_graph([SOURCE, SINK, OPERATOR], ("s", "out"), ("o", "o")),
        as_graph([SOURCE, SINK]),
        as_graph([SOURCE, Node("both", count, {})]),
        as_graph([SOURCE, Node("t", splits={})], ("s", "t")),
    ],
)
def test_a_graph_where_barriers_cannot_go_everywhere_is_refused(graph: Callable[[], Graph]) -> None:
    with pytest.raises(InvalidUse, match=r"no edge can lead|no source leads|or a source has a process"):
        graph()


@pytest.mark.parametrize("tasks", [0, 129])
def test_a_number_of_tasks_without_sense_is_refused(tasks: int) -> None:
    with pytest.raises(ValueError, match="key groups"):
        Graph([Node("s", splits={}, tasks=tasks)], [])


def test_a_snapshot_of_another_graph_is_refused() -> None:
    bench = ready_to_complete()
    bench.do("complete coordinator")
    with pytest.raises(InvalidUse, match="other nodes: a, b, count, out"):
        bench.restore(diamond())
    nodes = [Node("a", splits={"z": []}), *two_inputs().nodes[1:]]
    with pytest.raises(InvalidUse, match="'a', which a does not have"):
        bench.restore(Graph(nodes, two_inputs().edges))


def test_a_run_that_does_not_end_is_stopped() -> None:
    graph = Graph(
        [Node("s", splits={"a": [Record("k", 0)]}), Node("o", count)], [Edge("s", "o"), Edge("o", "o", lambda _: True)]
    )
    with pytest.raises(PipelineStopped, match="no end in 1000 steps"):
        Bench(graph).pipeline.run(0, most=1000)


def test_graphs_keep_their_results_with_other_numbers_of_tasks() -> None:
    wide = Run(1, rescaled(loop(), Random(3)), Alignment.EXACTLY_ONCE).play()
    assert wide.counted() == Run(2, loop(), Alignment.EXACTLY_ONCE).play().counted()

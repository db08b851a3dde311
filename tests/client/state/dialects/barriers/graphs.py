"""Graphs for the tests, and what they have to come to, found without a pipeline: one record after the other.

Every operator keeps the values that it saw, so its state tells how far it is. What it sends depends on the record
alone, so what comes out in the end is the same in every order.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from milepost.state.dialects.barriers import Edge, Graph, Node, Record


def seen_by(number: int) -> Callable[[Any, Record], tuple[Any, list[Record]]]:
    """Return an operator's function: it keeps the value, and sends it on with one hop less under another key."""

    def process(state: list[list[int]] | None, record: Record) -> tuple[list[list[int]], list[Record]]:
        ident, hops = record.value
        state = state if state is not None else []
        state.append(record.value)  # in place, as users do
        return state, [Record(f"k{(7 * ident + 3 * hops + number) % 6}", [ident, hops - 1])]

    return process


def again(record: Record) -> bool:
    """Tell whether the record goes round once more."""
    return bool(record.value[1] > 0)


def through(record: Record) -> bool:
    """Tell whether the record has gone round often enough."""
    return not again(record)


def records(count: int, hops: int = 0, first: int = 0) -> list[Record]:
    """Return records that are all different."""
    return [Record(f"k{number % 5}", [number, number % (hops + 1)]) for number in range(first, first + count)]


def line(count: int = 15) -> Graph:
    """One source and one sink."""
    return Graph([Node("s", splits={"a": records(count)}), Node("out")], [Edge("s", "out")])


def diamond(count: int = 12) -> Graph:
    """Two sources, two ways, one join: the acyclic case."""
    nodes = [Node("s", splits={"a": records(count)}), Node("t", splits={"b": records(count, first=100)})]
    nodes += [Node("left", seen_by(1), tasks=2), Node("right", seen_by(2)), Node("join", seen_by(3), tasks=2)]
    ends = [("s", "left"), ("s", "right"), ("t", "right"), ("left", "join"), ("right", "join"), ("join", "out")]
    return Graph([*nodes, Node("out")], [Edge(*one) for one in ends])


def loop(count: int = 12) -> Graph:
    """A loop of two nodes, with a second source that leads into its middle: the cyclic case."""
    nodes = [Node("s", splits={"a": records(count, 3)}), Node("t", splits={"b": records(count // 2, 3, 100)})]
    nodes += [Node("head", seen_by(1), tasks=2), Node("body", seen_by(2), tasks=2), Node("out")]
    ends = [Edge("s", "head"), Edge("t", "body"), Edge("head", "body"), Edge("body", "head", again)]
    return Graph(nodes, [*ends, Edge("body", "out", through)])


def islands(count: int = 12) -> Graph:
    """Two parts that nothing connects, one of them with two sources."""
    nodes = [Node("s", splits={"a": records(count)}), Node("t", splits={"b": records(count, first=100), "c": []})]
    nodes += [Node("u", splits={"d": records(3, first=200)}), Node("one", seen_by(1)), Node("two", seen_by(2), tasks=2)]
    ends = [("s", "one"), ("one", "out"), ("t", "two"), ("u", "two"), ("two", "exit")]
    return Graph([*nodes, Node("out"), Node("exit")], [Edge(*one) for one in ends])


def drawn(random: Random) -> Graph:
    """Return a graph of one to three sources and one to four operators, with or without loops."""
    sources = [
        Node(f"s{at}", splits={f"{at}{name}": records(random.randrange(12), 2, 100 * at) for name in "ab"})
        for at in range(random.randint(1, 3))
    ]
    operators = [Node(f"o{at}", seen_by(at)) for at in range(random.randint(1, 4))]
    ends: dict[tuple[str, str], Edge] = {}
    for at, node in enumerate(operators):
        before = [one.name for one in (*sources, *operators[:at])]
        for source in random.sample(before, min(len(before), random.randint(1, 2))):
            ends[source, node.name] = Edge(source, node.name)
    for node in sources:
        if not any(source == node.name for source, _ in ends):
            target = random.choice(operators).name
            ends[node.name, target] = Edge(node.name, target)
    for _ in range(random.randint(0, 2)):
        first, last = sorted(random.choices(range(len(operators)), k=2))
        ends[f"o{last}", f"o{first}"] = Edge(f"o{last}", f"o{first}", again)
    for node in operators:
        if random.random() < 0.5 or not any(source == node.name for source, _ in ends):
            ends[node.name, "out"] = Edge(node.name, "out")
    sinks = [Node("out")] if any(target == "out" for _, target in ends) else []
    return rescaled(Graph([*sources, *operators, *sinks], list(ends.values())), random)


def rescaled(graph: Graph, random: Random) -> Graph:
    """Return the same graph with other numbers of tasks."""
    nodes = [Node(node.name, node.process, node.splits, random.randint(1, 3)) for node in graph.nodes]
    return Graph(nodes, graph.edges)


def _emitted(graph: Graph) -> Iterator[tuple[str, Record]]:
    for node in graph.nodes:
        for split in (node.splits or {}).values():
            yield from ((node.name, record) for record in split)


def plain(record: Record) -> tuple[str, tuple[int, ...]]:
    """Return a record as something that can be counted."""
    return record.key, tuple(record.value)


def expected(graph: Graph) -> tuple[Counter[Any], dict[str, Counter[Any]]]:
    """Return what has to come out of a graph, and what each of its operators has to have seen."""
    out: Counter[Any] = Counter()
    seen: dict[str, Counter[Any]] = defaultdict(Counter)
    kinds = {node.name: node for node in graph.nodes}
    moving = deque(_emitted(graph))
    while moving:
        source, record = moving.popleft()
        for edge in graph.edges:
            if edge.source == source and edge.when(record):
                process = kinds[edge.target].process
                if process is None:
                    out[edge.target, plain(record)] += 1
                else:
                    seen[edge.target][plain(record)] += 1
                    moving.extend((edge.target, one) for one in process(None, record)[1])
    return out, seen

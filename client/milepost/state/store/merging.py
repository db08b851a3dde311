"""Merges runs and commits into larger runs, by size, so that a change is rewritten a few times instead of with each
snapshot.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from milepost.state.store.format.files import Body, bodies_of, file_of
from milepost.state.store.format.heads import Block, Commit, Run, RunHead, RunPart, SnapshotHead
from milepost.state.store.format.names import Kind, StateFileName
from milepost.state.store.history import History
from milepost.state.store.loading import open_part
from milepost.state.store.rows import PREFIX_BYTES, Op, Row, fold


def merged(sources: Sequence[Iterable[Row]], families: frozenset[int], *, bottom: bool) -> Iterator[Row]:
    """Merge sorted rows, oldest source first, into sorted rows in which each key appears once.

    At the ``bottom`` there are no older rows: removals are dropped, and appends become puts. Rows of families that no
    longer exist are always dropped.
    """
    newest_first = [_tagged(source, -age) for age, source in enumerate(sources)]
    for key, group in groupby(heapq.merge(*newest_first), key=itemgetter(0)):
        if int.from_bytes(key[:PREFIX_BYTES], "big") not in families:
            continue
        _, _, op, value = next(group)
        while op == Op.APPEND and (older := next(group, None)) is not None:
            op, value = fold(older[2:], (op, value))
        if not bottom:
            yield key, op, value
        elif op != Op.REMOVE:
            yield key, Op.PUT, value


def runs_to_keep(runs: Sequence[Run], *, merge_after: int, ratio: float) -> int:
    """Return how many of the runs, oldest first, stay unchanged; the others are merged into one.

    Nothing is merged before ``merge_after`` commits are runs by themselves.
    """
    keep = len(runs)
    while keep > 0 and runs[keep - 1].is_commit:
        keep -= 1
    if len(runs) - keep < merge_after:
        return len(runs)
    size = sum(run.size for run in runs[keep:])
    while keep > 0 and runs[keep - 1].size < ratio * size:
        keep -= 1
        size += runs[keep].size
    return keep


def make_snapshot(
    history: History,
    before: SnapshotHead | None,
    deltas: Sequence[Commit],
    *,
    merge_after: int,
    ratio: float,
    part_bytes: int,
) -> tuple[SnapshotHead, int]:
    """Write a snapshot of the newest of the commits ``deltas``, oldest first, that came after the snapshot ``before``.

    Returns its head, and the number of bytes written. Files that were written before a failure have no snapshot that
    names them, and are removed once they are old.
    """
    target = deltas[-1]
    runs = [*(before.runs if before else ()), *(_run_of(history, commit) for commit in deltas)]
    keep = runs_to_keep(runs, merge_after=merge_after, ratio=ratio)
    written = 0
    if keep < len(runs):
        run, written = _merge(history, runs[keep:], target, bottom=keep == 0, part_bytes=part_bytes)
        runs[keep:] = [run]
    head = SnapshotHead(*target, tuple(runs))
    file = file_of(history.store, head, Body((), ()))
    return head, written + history.create(StateFileName(Kind.SNAPSHOT, *target, file.digest), file)


def _run_of(history: History, commit: Commit) -> Run:
    """Return a commit as a run that consists of it alone."""
    _, opened = history.open_delta(commit)
    name = StateFileName(Kind.DELTA, *commit)
    return Run(commit[0] - 1, commit[0], (_part(name, opened.blocks),) if opened.blocks else ())


def _part(name: StateFileName, blocks: Sequence[Block]) -> RunPart:
    size, rows = sum(block.length for block in blocks), sum(block.rows for block in blocks)
    return RunPart(str(name), size, rows, blocks[0].first, blocks[-1].last)


def _merge(history: History, runs: Sequence[Run], target: Commit, *, bottom: bool, part_bytes: int) -> tuple[Run, int]:
    """Write several runs as one, and return it and the number of bytes."""
    after, families = runs[0].after, history.delta(target).families.numbers
    parts, written = [], 0
    rows = merged([_rows_of(history, run) for run in runs], families, bottom=bottom)
    for body in bodies_of(rows, part_bytes):
        file = file_of(history.store, RunHead(after, target[0]), body)
        name = StateFileName(Kind.RUN, target[0], file.digest)
        written += history.create(name, file)
        parts.append(_part(name, body.blocks))
    return Run(after, target[0], tuple(parts)), written


def _tagged(rows: Iterable[Row], place: int) -> Iterator[tuple[bytes, int, int, bytes]]:
    return ((key, place, op, value) for key, op, value in rows)


def _rows_of(history: History, run: Run) -> Iterator[Row]:
    for part in run.parts:
        yield from open_part(history, run, part.name).rows()

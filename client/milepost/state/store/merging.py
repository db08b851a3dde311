"""Writes snapshots of a state store. A snapshot merges recent commits and runs (earlier merges) of similar size into a
larger run, and keeps larger runs unchanged; so a change is rewritten a few times, not with each snapshot.
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

    ``bottom`` says that no older rows exist: then the result leaves out removals, and each append becomes a put. Rows
    of column families whose number is not in ``families`` are dropped.
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
    """Return how many of the ``runs``, oldest first, a snapshot keeps unchanged; it merges the remaining ones into one
    run.

    No run is merged as long as fewer than ``merge_after`` of the newest runs are single commits. Otherwise these
    commits are merged, together with older runs. The merge stops before a run that is at least ``ratio`` times as large
    as all newer runs together.
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
    """Write a snapshot of the last commit in ``deltas``. These are the commits after the snapshot ``before`` (None if
    there is none), oldest first. `runs_to_keep` explains ``merge_after`` and ``ratio``; ``part_bytes`` is the size at
    which a run continues in another file.

    Returns the header of the snapshot's file, and the number of bytes written. After a failure, no snapshot lists the
    files that were already written; clean-up removes them once they are old.
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
    """Return a `Run` that consists of this single commit."""
    _, opened = history.open_delta(commit)
    name = StateFileName(Kind.DELTA, *commit)
    return Run(commit[0] - 1, commit[0], (_part(name, opened.blocks),) if opened.blocks else ())


def _part(name: StateFileName, blocks: Sequence[Block]) -> RunPart:
    size, rows = sum(block.length for block in blocks), sum(block.rows for block in blocks)
    return RunPart(str(name), size, rows, blocks[0].first, blocks[-1].last)


def _merge(history: History, runs: Sequence[Run], target: Commit, *, bottom: bool, part_bytes: int) -> tuple[Run, int]:
    """Merge several runs into one, up to the commit ``target``; return the new run and the number of bytes written.
    ``bottom`` says that no older runs exist.
    """
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

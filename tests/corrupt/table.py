"""The table of docs/damage.md: thing and damage, with a leader and without, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.corrupt.shape import Damage
from tests.corrupt.trial import Case, End, Outcome

BEGIN: Final = '<!-- table: make corrupt ARGS="--table docs/damage.md" -->'
END: Final = "<!-- end of table -->"
HEADING: Final = ("| stored thing | damage | without a leader | under a leader |", "|---|---|---|---|")


class Row(NamedTuple):
    """A case and how it ended."""

    case: Case
    outcome: Outcome


def table(rows: Sequence[Row]) -> str:
    """In Markdown: a line for each kind of thing and each damage."""
    return "".join(f"{line}\n" for line in (*HEADING, *_lines(rows)))


def update(page: str, rows: Sequence[Row]) -> str:
    """The page with these lines in its table, beside those of stores that were not run."""
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    fresh = _lines(rows)
    run = {f"| {row.case.store.name}: " for row in rows}
    kept = [line for line in old.splitlines() if line.startswith("| ") and line not in HEADING]
    kept = [line for line in kept if not any(line.startswith(store) for store in run)]
    lines = sorted((*kept, *fresh), key=lambda line: line.split(": ")[0])
    return "\n".join((before + BEGIN, *HEADING, *lines, END + after))


def _lines(rows: Sequence[Row]) -> list[str]:
    lines: list[str] = []
    kinds = dict.fromkeys((row.case.store.name, row.case.kind) for row in rows)
    for store, kind in kinds:
        for damage in Damage:
            mine = [
                row for row in rows if (row.case.store.name, row.case.kind, row.case.damage) == (store, kind, damage)
            ]
            if mine:
                ends = [_ends([row for row in mine if row.case.leader is leader]) for leader in (False, True)]
                lines.append(f"| {store}: {kind} | {damage.value} | {ends[0]} | {ends[1]} |")
    return lines


def _ends(rows: Sequence[Row]) -> str:
    found = {row.outcome.end for row in rows}
    return ", ".join(end.name.lower() for end in End if end in found)

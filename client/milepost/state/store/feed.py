"""Tells what commits changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from milepost.state.store.contract.changes import Change, ChangeKind
from milepost.state.store.families import PREFIX_BYTES
from milepost.state.store.format.heads import Commit
from milepost.state.store.frames import unframed
from milepost.state.store.history import History
from milepost.state.store.updates import Op

_KINDS = {Op.PUT: ChangeKind.PUT, Op.REMOVE: ChangeKind.REMOVE, Op.APPEND: ChangeKind.APPEND}


def changes_of(history: History, commits: Sequence[Commit], family: str | None) -> Iterator[Change]:
    """Iterate what these commits changed, in one family or in all. Raises `StateDamaged`, `VersionNotFound`."""
    for commit in commits:
        head, opened = history.open_delta(commit)
        names = {one.number: (name, one.multiple) for name, one in head.families.by_name.items()}
        for key, op, value in opened.rows():
            name, multiple = names[int.from_bytes(key[:PREFIX_BYTES], "big")]
            if family in (None, name):
                values = () if op == Op.REMOVE else tuple(unframed(value)) if multiple else (value,)
                yield Change(commit[0], name, _KINDS[Op(op)], key[PREFIX_BYTES:], values)

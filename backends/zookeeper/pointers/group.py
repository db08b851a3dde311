"""One group of changes as one transaction of ZooKeeper.

A transaction must say whether it creates a znode or sets it, so a leader keeps in mind which znodes there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError, NotEmptyError

from backends.contract import Change, Commit, CommitRefused, Done, Head, Refusal, Unknown
from backends.zookeeper.client import ZooKeeperClient
from backends.zookeeper.errors import culprit, name_of, refusal
from backends.zookeeper.pointers.layout import ZnodeLayout, encode_head

MAX_TRANSACTION_BYTES: Final = 900 * 1024
"""A server drops the connection of who sends more than ``jute.maxbuffer``, 1 MiB unless set otherwise."""

_OVERHEAD: Final = 64
"""Bytes that one operation takes beyond its path and value, at most; a created one has its rights as well."""


class Znodes:
    """Which znodes there are, as far as that is known; ``complete`` means that what is not known is not there.

    ``strange``: what lies below a record, where nothing belongs, each znode after the one that it lies below.
    """

    def __init__(
        self,
        present: Iterable[str] = (),
        *,
        complete: bool = False,
        strange: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self._there = dict.fromkeys(present, True)
        self._complete = complete
        self._strange = dict(strange)

    def strange(self, path: str) -> Sequence[str]:
        """What has to go before the record at ``path`` can."""
        return self._strange.get(path, ())

    def has(self, path: str) -> bool | None:
        """None: not known."""
        return self._there.get(path, False if self._complete else None)

    def learn(self, path: str, *, there: bool) -> None:
        """It is there, or it is not."""
        if not there:
            self._strange.pop(path, None)
        if there or not self._complete:
            self._there[path] = there
        else:
            self._there.pop(path, None)


@dataclass(slots=True)
class Transaction:
    """What is to be done to which znodes, after the head was moved."""

    created: dict[str, bytes] = field(default_factory=dict)
    set: dict[str, bytes] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)

    def paths(self, head: str) -> list[str]:
        """The znodes of its operations, in order, of which the first is the head's."""
        return [head, *self.created, *self.set, *self.deleted]

    @property
    def size(self) -> int:
        """About as many bytes as it takes on its way, rather more."""
        written = (*self.created.items(), *self.set.items())
        paths = sum(len(path) + _OVERHEAD for path in self.deleted)
        return paths + sum(len(path) + len(value) + _OVERHEAD for path, value in written)

    def stage(self, znodes: Znodes) -> None:
        """Let ``znodes`` be as they will be."""
        for path in self.created:
            znodes.learn(path, there=True)
        for path in self.deleted:
            znodes.learn(path, there=False)

    def send(self, client: ZooKeeperClient, layout: ZnodeLayout, head: Head, version: int) -> Any:
        """Send it, led by what makes it this leader's: the head of its term is at ``version``."""
        request = client.transaction()
        request.set_data(layout.head(head), encode_head(head), version)
        for path, value in self.created.items():
            request.create(path, value)
        for path, value in self.set.items():
            request.set_data(path, value)
        for path in self.deleted:
            request.delete(path)
        return request.commit_async()


def involved(layout: ZnodeLayout, changes: Sequence[Change]) -> Iterator[str]:
    """The paths of which must be known whether they are there."""
    yield layout.witness
    for key, value in changes:
        path = layout.record(key)
        yield path
        if value is not None:
            yield from parents(layout, path)


def parents(layout: ZnodeLayout, path: str) -> list[str]:
    """The records' znode, and those between it and this one, from the top."""
    names = path[len(layout.records) + 1 :].split("/")[:-1]
    below = [layout.records + "/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
    return [layout.records, *below]


def build(layout: ZnodeLayout, changes: Sequence[Change], znodes: Znodes, after: Head) -> Transaction:
    """The transaction that makes these changes and leaves ``after`` as the head; everything `involved` is known."""
    transaction = Transaction()
    # Whatever version the witness has: the head is what the transaction is conditional on.
    witnessed = transaction.set if znodes.has(layout.witness) else transaction.created
    witnessed[layout.witness] = encode_head(after)
    for key, value in changes:
        path = layout.record(key)
        if value is None:
            if znodes.has(path):
                transaction.deleted.extend((*reversed(znodes.strange(path)), path))
        elif znodes.has(path):
            transaction.set[path] = value
        else:
            for parent in parents(layout, path):
                if not znodes.has(parent):
                    transaction.created.setdefault(parent, b"")
            transaction.created[path] = value
    return transaction


def end_of(results: list[object], head: Head, paths: Sequence[str]) -> Commit:
    """What became of a transaction on ``paths`` by which ``head`` was to be reached."""
    failure = culprit(results)
    if failure is None:
        odd = next((result for result in results if isinstance(result, KazooException)), None)
        return Done(head) if odd is None else Unknown(f"the transaction ended with {name_of(odd)}")
    number, error = failure
    if number == 0 and isinstance(error, BadVersionError | NoNodeError):
        return CommitRefused(Refusal.HEAD_MOVED, f"the head of {head.journal!r} moved ({name_of(error)})")
    what = f"the transaction ended with {name_of(error)} at {paths[number]}"
    if isinstance(error, NoNodeError | NodeExistsError | NotEmptyError):
        # The head was this leader's, so nobody else leads: a take-over writes back what should be there.
        return CommitRefused(Refusal.HEAD_MOVED, f"somebody else changed what is stored of {head.journal!r}: {what}")
    reason = refusal(error)
    return Unknown(what) if reason is None else CommitRefused(reason, what)

"""Writes one group of changes as one transaction of ZooKeeper.

For each znode a transaction must either create it or set it. So a leader remembers which znodes exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.protocol.serialization import Create, Delete, SetData
from kazoo.protocol.serialization import Transaction as Multi
from kazoo.security import OPEN_ACL_UNSAFE

from milepost_backends.contract import Change, Commit, CommitRefused, Done, Head, Refusal, Unknown
from milepost_backends.zookeeper.errors import first_failure, name_of, refusal
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout, encode_head

MAX_TRANSACTION_BYTES: Final = 900 * 1024
"""The most bytes of a transaction. A server drops the connection of a client that sends more than ``jute.maxbuffer``, 1
MiB by default.
"""

_ANY_VERSION: Final = -1
_OVERHEAD: Final = 64
"""The most bytes of one operation beside its path and value, including the access rights of a creation."""


class Znodes:
    """Remembers which znodes of a journal exist.

    ``complete`` means that all znodes that are not remembered do not exist. ``strange`` has, for each path of a record,
    the znodes that other programs made below it, each after its parent.
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

    @property
    def is_complete(self) -> bool:
        """Whether it is known of each znode whether it exists."""
        return self._complete

    def strange(self, path: str) -> Sequence[str]:
        """Return the znodes that other programs made below the record at ``path``.

        They must be deleted before the record can be.
        """
        return self._strange.get(path, ())

    def has(self, path: str) -> bool | None:
        """Return whether the znode at ``path`` exists; None if that is unknown."""
        return self._there.get(path, False if self._complete else None)

    def learn(self, path: str, *, there: bool) -> None:
        """Remember whether the znode at ``path`` exists."""
        if not there:
            self._strange.pop(path, None)
        if there or not self._complete:
            self._there[path] = there
        else:
            self._there.pop(path, None)


@dataclass(slots=True)
class Transaction:
    """The operations of one transaction on the znodes of a journal, apart from the first one, which moves the head.

    ``head`` is what the transaction leaves in the znode of the head.
    """

    head: bytes
    created: dict[str, bytes] = field(default_factory=dict)
    set: dict[str, bytes] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)

    def paths(self, head: str) -> list[str]:
        """Return the paths of all operations in order, beginning with ``head``, the path of the head."""
        return [head, *self.created, *self.set, *self.deleted]

    @property
    def size(self) -> int:
        """Return the estimated bytes of the transaction on the wire. The estimate is never too low."""
        written = (*self.created.items(), *self.set.items())
        paths = sum(len(path) + _OVERHEAD for path in self.deleted)
        return paths + sum(len(path) + len(value) + _OVERHEAD for path, value in written)

    def stage(self, znodes: Znodes) -> None:
        """Update ``znodes``, which remembers what znodes exist, as this transaction will change them."""
        for path in self.created:
            znodes.learn(path, there=True)
        for path in self.deleted:
            znodes.learn(path, there=False)

    def request(self, head: str, version: int, acl: Sequence[Any] | None) -> Any:
        """Return the request of the transaction, on the condition that the znode of the head, at the path ``head``, is
        at ``version``. New znodes have the access rights ``acl``, or everybody has all rights on them.

        kazoo would build the same request, but normalize each path, which is normal here.
        """
        acl = acl or OPEN_ACL_UNSAFE
        operations: list[Any] = [SetData(head, self.head, version)]
        operations += [Create(path, value, acl, 0) for path, value in self.created.items()]
        operations += [SetData(path, value, _ANY_VERSION) for path, value in self.set.items()]
        operations += [Delete(path, _ANY_VERSION) for path in self.deleted]
        return Multi(operations)


def involved(layout: ZnodeLayout, changes: Sequence[Change]) -> Iterator[str]:
    """Yield the paths of the znodes of which the leader must know whether they exist, before `build` makes a
    transaction.
    """
    yield layout.witness
    for key, value in changes:
        path = layout.record(key)
        yield path
        if value is not None:
            yield from parents(layout, path)


def parents(layout: ZnodeLayout, path: str) -> list[str]:
    """Return the paths of the znodes above ``path``, from the top: the first one is the znode of all records."""
    names = path[len(layout.records) + 1 :].split("/")[:-1]
    below = [layout.records + "/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
    return [layout.records, *below]


def build(layout: ZnodeLayout, changes: Sequence[Change], znodes: Znodes, after: Head) -> Transaction:
    """Return the transaction that makes ``changes`` and leaves the head ``after``.

    ``znodes`` must know of each znode that `involved` yields whether it exists.
    """
    transaction = Transaction(encode_head(after))
    # The witness may be at any version: the transaction is conditional on the version of the head.
    witnessed = transaction.set if znodes.has(layout.witness) else transaction.created
    witnessed[layout.witness] = transaction.head
    for key, value in changes:
        path = layout.record(key)
        if value is None:
            if znodes.has(path):
                transaction.deleted.extend((*reversed(znodes.strange(path)), path))
        elif znodes.has(path):
            transaction.set[path] = value
        else:
            if not znodes.has(path.rpartition("/")[0]):
                for parent in parents(layout, path):
                    if not znodes.has(parent):
                        transaction.created.setdefault(parent, b"")
            transaction.created[path] = value
    return transaction


def end_of(results: list[object], head: Head, paths: Sequence[str]) -> Commit:
    """Return the outcome of a group from the ``results`` of its transaction on ``paths``.

    If the transaction succeeded, it has left ``head``.
    """
    failure = first_failure(results)
    if failure is None:
        odd = next((result for result in results if isinstance(result, KazooException)), None)
        return Done(head) if odd is None else Unknown(f"the transaction ended with {name_of(odd)}")
    number, error = failure
    if number == 0 and isinstance(error, BadVersionError | NoNodeError):
        return CommitRefused(Refusal.HEAD_MOVED, f"the head of {head.journal!r} moved ({name_of(error)})")
    what = f"the transaction ended with {name_of(error)} at {paths[number]}"
    if isinstance(error, NoNodeError | NodeExistsError | NotEmptyError):
        # The head is still this leader's, so another program changed the znodes. A take-over restores them.
        return CommitRefused(Refusal.HEAD_MOVED, f"another program changed what is stored of {head.journal!r}: {what}")
    reason = refusal(error)
    return Unknown(what) if reason is None else CommitRefused(reason, what)

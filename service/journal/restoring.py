"""Writing back from memory what a foreign hand changed in the store while this process led."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from backends.contract import Change, Done, GroupLimits, Head, PointerStore, StorageUnavailable
from service.journal.proof import Proof
from service.journal.settling import Loaded
from service.rules.records import Corrupt, encode
from service.rules.state import State

log = logging.getLogger("milepost.journal")

_SHOWN = 10


async def restore(store: PointerStore, head: Head, found: Loaded, state: State, proof: Proof) -> Head:
    """Make the store hold ``state`` again, whose hashes are in ``proof``, and not what was ``found`` under ``head``.

    What is damaged in the store and unknown in memory stays there, and is in ``state`` from then on; so does what was
    damaged in memory already. Returns the head afterwards. Raises `StorageUnavailable`.
    """
    differing = sorted(proof.differing(found.proof))
    if differing:
        log.error(
            "%d records of journal %s were changed by somebody else while this replica led; they are written back from"
            " memory: %s",
            len(differing),
            head.journal,
            ", ".join(differing[:_SHOWN]),
        )
    changes = [change for key in differing if (change := _written_back(key, found, state, proof)) is not None]
    for group in _groups(changes, store.limits) if changes or head.digest != proof.digest else ():
        outcome = await store.commit(head, group, head.revision + 1, proof.digest)
        if not isinstance(outcome, Done):
            raise StorageUnavailable(f"records could not be written back: {outcome.detail}")
        head = outcome.head
    return head


def _written_back(key: str, found: Loaded, state: State, proof: Proof) -> Change | None:
    """The change that puts a record right; None if it stays as it was found."""
    meant, there = state.get(key), found.state.get(key)
    if isinstance(meant, Corrupt) or (meant is None and isinstance(there, Corrupt)):
        proof.put_back({key: found.proof.hashes.get(key)})
        state.apply([(key, there)])
        return None
    value = None if meant is None else encode(key, meant)
    proof.apply([(key, value)])
    return Change(key, value)


def _groups(changes: Sequence[Change], limits: GroupLimits) -> Iterator[list[Change]]:
    """The changes in groups that the store takes, at least one of them."""
    group: list[Change] = []
    size = 0
    for change in changes:
        length = len(change.key) + len(change.value or b"")
        if group and (len(group) >= limits.requests or size + length > limits.bytes):
            yield group
            group, size = [], 0
        group.append(change)
        size += length
    yield group

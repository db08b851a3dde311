"""Short words for what the suites do to a journal."""

from __future__ import annotations

from collections.abc import Sequence

from backends.contract import Change, Commit, CommitRefused, Done, Head, PointerStore, Refusal

ROOT = "root"


def done(end: Commit) -> Head:
    """The head after a commit that must have landed."""
    assert isinstance(end, Done), end
    return end.head


def refused(end: Commit) -> Refusal:
    """Why a commit was refused that must have been."""
    assert isinstance(end, CommitRefused), end
    return end.reason


def writes(**values: bytes | None) -> list[Change]:
    """A group of changes."""
    return [Change(key, value) for key, value in values.items()]


async def put(store: PointerStore, head: Head, changes: Sequence[Change]) -> Head:
    """Commit a group that must land; the head after it."""
    return done(await store.commit(head, changes, head.revision + max(1, len(changes))))


async def records(store: PointerStore, head: Head) -> dict[str, bytes]:
    """What `load` gives, each key once and no value None."""
    found: dict[str, bytes] = {}
    async for key, value in store.load(head):
        assert key not in found
        assert value is not None
        found[key] = value
    return found


async def taken_over(store: PointerStore) -> tuple[Head, dict[str, bytes]]:
    """Take the root journal over, as every leader does before it reads."""
    head = await store.take_over(ROOT)
    return head, await records(store, head)

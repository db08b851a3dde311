"""What must hold of every history, whatever was decided."""

from __future__ import annotations

from milepost_server.memory.view import View
from milepost_server.model.history import (
    ACTS,
    BATCHES,
    EPOCH_ENDED,
    EPOCH_GRANTED,
    MOST_PAGES,
    PAGE_ENTRIES,
    HistoryEntry,
    HistoryPage,
    page_key,
)
from milepost_server.model.records import Store
from milepost_server.rules.answers import epoch_holder


def pages_of(view: View, store: str, log: str) -> list[HistoryPage]:
    """The pages of a log that can be read, the oldest first."""
    pages = (view.get(page_key(store, log, number)) for number in view.history_pages(store, log))
    return [page for page in pages if isinstance(page, HistoryPage)]


def entries_of(view: View, store: str, log: str) -> list[HistoryEntry]:
    """The entries of a log, the oldest first."""
    return [entry for page in pages_of(view, store, log) for entry in page.entries]


def check(view: View, store: Store) -> None:
    """Entries are in order and within bounds, and the epochs are those of the store's record."""
    for log in (ACTS, BATCHES):
        assert len(view.history_pages(store.name, log)) <= MOST_PAGES[log]
        assert all(0 < len(page.entries) <= PAGE_ENTRIES[log] + 1 for page in pages_of(view, store.name, log))
        positions = [(entry.revision, entry.number) for entry in entries_of(view, store.name, log)]
        assert positions == sorted(set(positions))
    acts = entries_of(view, store.name, ACTS)
    granted = [entry.epoch for entry in acts if entry.kind == EPOCH_GRANTED]
    ended = [entry.epoch for entry in acts if entry.kind == EPOCH_ENDED]
    assert granted == sorted(set(granted))
    assert ended == sorted(set(ended))
    if granted:
        assert granted[-1] == store.epoch
        assert (granted[-1] in ended) is (epoch_holder(view, store) is None)
        assert set(granted[:-1]) <= set(ended)
    batches: dict[str | None, int] = {}
    for entry in entries_of(view, store.name, BATCHES):
        assert entry.batch is not None
        assert entry.replay or entry.batch > batches.get(entry.directory, -1)
        batches[entry.directory] = max(entry.batch, batches.get(entry.directory, -1))

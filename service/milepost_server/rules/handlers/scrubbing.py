"""What may be dropped: records that nothing depends on any more, not even a retry that asks for its first answer."""

from __future__ import annotations

from typing import Final

from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers
from milepost_server.rules.handlers.handles import absent
from milepost_server.rules.memory.view import View
from milepost_server.rules.records import Handle, Record, Session, Store, Upload, store_of
from milepost_server.rules.requests import Scrub


def scrub(view: View, request: Scrub, context: DecisionContext) -> Decision:
    """Drop those of the named records that may be dropped now. The blobs of cleared handles are orphans then."""
    changes: dict[str, None] = {}
    orphans: list[str] = []
    for key in request.keys:
        record = view.get(key)
        if record is not None and droppable(view, key, record, context):
            changes[key] = None
            if isinstance(record, Handle) and not record.gone:
                orphans.append(record.blob)
    return Accepted(Answer(), changes, orphans=tuple(orphans))


def droppable(view: View, key: str, record: Record, context: DecisionContext) -> bool:
    """Return whether the record of ``key`` has ended, and keeps no answer that may still be asked for."""
    match record:
        case Handle():
            store = view.store(store_of(key) or "")
            if not isinstance(store, Store) or not absent(store, record):
                return False
            return (record.changed if record.gone else store.cleared) <= context.keys_horizon
        case Session():
            return 0 < record.ended <= context.sessions_horizon
        case Upload():
            return bool(record.ended) and record.created_revision <= context.keys_horizon
        case _:
            return False


HANDLERS: Final[Handlers] = {
    Scrub: scrub,
}

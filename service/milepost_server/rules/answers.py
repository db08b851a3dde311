"""Turn records into the JSON bodies of answers to clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from milepost_server.memory.lookup import Lookup
from milepost_server.model.moves import ARRIVING, CLEARING, MOVED
from milepost_server.model.records import DEPLOYMENT_KEY, Deployment, Handle, Session, Store
from milepost_server.model.trees import Entry
from milepost_server.rules.locks import holders


def handle_body(view: Lookup, store: Store, handle: Handle) -> dict[str, Any]:
    """Return a handle's record as JSON, in the form of the HTTP interface."""
    return held_body(handle, holders(view, store, handle))


def held_body(handle: Handle, held: Sequence[str]) -> dict[str, Any]:
    """Return a handle's record as JSON; ``held`` has the sessions that hold the handle, sorted."""
    return {
        "name": handle.name,
        "version": handle.version,
        "size": handle.size,
        "sha256": handle.sha256,
        "created": handle.created,
        "updated": handle.updated,
        "labels": handle.labels,
        "locks": list(held),
        "epoch": handle.epoch,
        "removing": handle.removing,
    }


def file_version(created_revision: str, sha256: str) -> str:
    """Return the version of a file, made of the revision at which it was created at its path, and its digest.

    After a restore of all records from an older copy, revisions are used a second time. The digest then distinguishes
    two files with the same revision.
    """
    return f"{created_revision}.{sha256[:16]}"


def entry_body(path: str, entry: Entry) -> dict[str, Any]:
    """Return a file or a directory as JSON, for a listing of a tree."""
    directory = entry.directory
    return {
        "path": path,
        "directory": directory,
        "size": entry.size,
        "sha256": None if directory else entry.sha256,
        "version": str(entry.created_revision)
        if directory
        else file_version(str(entry.created_revision), entry.sha256),
        "modified": entry.modified,
        "epoch": entry.epoch,
    }


def session_body(session: Session) -> dict[str, Any]:
    """Return a session as JSON, in the form of the answer to its creation."""
    return {"session": session.id, "ttl": session.ttl, "holder": session.holder}


def process_body(session: Session | None) -> dict[str, Any] | None:
    """Return the process that holds a session as JSON, with null for what its client did not state; None if the client
    did not describe the process, or if there is no session.
    """
    found = None if session is None else session.process
    if found is None:
        return None
    return {
        "host": found.host or None,
        "pid": found.pid or None,
        "application": found.application or None,
        "ui": found.ui or None,
    }


def placement_body(view: Lookup, job: str) -> dict[str, Any]:
    """Return what this cell knows of where a job is, as JSON."""
    deployment, store = view.get(DEPLOYMENT_KEY), view.store(job)
    known = deployment if isinstance(deployment, Deployment) else Deployment("")
    elsewhere = store.elsewhere if isinstance(store, Store) else None
    placement = "none" if store is None else "here"
    if elsewhere is not None:
        placement = ARRIVING if elsewhere.phase == CLEARING else elsewhere.phase
    return {
        "job": job,
        "cell": known.cell or None,
        "cells": list(known.cells),
        "placement": placement,
        "other": None if elsewhere is None else elsewhere.cell,
        "epoch": None if elsewhere is None else elsewhere.epoch,
        "seal": elsewhere.seal if elsewhere is not None and elsewhere.phase == MOVED else None,
    }


def epoch_body(view: Lookup, store: Store) -> dict[str, Any]:
    """Return the epoch of a store as JSON, with null for session, name and time if no session holds the epoch."""
    holder = epoch_holder(view, store)
    return {
        "epoch": store.epoch,
        "session": holder.id if holder else None,
        "holder": holder.holder if holder else None,
        "since": store.epoch_since if holder else None,
    }


def job_body(view: Lookup, store: Store) -> dict[str, Any]:
    """Return the state, the epoch and the wish of a job as JSON."""
    return {
        "job": store.name,
        "state": job_state(view, store),
        **epoch_body(view, store),
        "wish": wish_body(view, store),
    }


def job_state(view: Lookup, store: Store) -> str:
    """Return ``dropped`` if the job was dropped and did not begin anew. Otherwise return what became of the driver that
    held the epoch last: ``led`` if it leads, ``stopping`` if it was asked to stop and leads still, ``stopped`` if none
    leads since a person stopped the job, ``lost`` if its session ended with the epoch in hand, ``resigned`` if it
    resigned, and ``new`` if no driver ever led.
    """
    if store.is_dropped:
        return "dropped"
    if epoch_holder(view, store) is not None:
        return "stopping" if store.stopped is not None and store.stopped.epoch == store.epoch else "led"
    if store.stopped is not None:
        return "stopped"
    if store.epoch_session is not None:
        return "lost"
    return "resigned" if store.epoch else "new"


def wish_body(view: Lookup, store: Store) -> dict[str, Any] | None:
    """Return the wish about a job as JSON, with null for what the client did not say; None if there is none that counts
    still. A wish to hand over counts until its epoch has ended, one to stop until it is taken back.
    """
    wish = store.wish
    if wish is None or not (wish.stops or (wish.epoch == store.epoch and epoch_holder(view, store) is not None)):
        return None
    return {
        "kind": wish.kind,
        "epoch": wish.epoch,
        "at": wish.at,
        "by": wish.by or None,
        "who": wish.who or None,
        "reason": wish.reason or None,
        "savepoint": wish.savepoint or None,
    }


def epoch_holder(view: Lookup, store: Store) -> Session | None:
    """Return the living session that holds the epoch; None if there is none."""
    if store.epoch_session is None:
        return None
    session = view.session(store.epoch_session)
    if isinstance(session, Session) and session.created_revision == store.epoch_session_created and not session.ended:
        return session
    return None

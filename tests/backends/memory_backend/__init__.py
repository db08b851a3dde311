"""A backend of another distribution, as its author would write it: pointers in this process's memory, for one replica.

It is the whole of what `docs/developing.md` says under "Adding a backend", and passes the suites of `tests/contracts`
that are meant for one process. What is stored is gone with the process: it serves tests and nothing else.
"""

from __future__ import annotations

from backends.contract import Backend, Election, Misconfigured, PointersSettings, PointerStore


def _pointers(url: str, settings: PointersSettings) -> tuple[PointerStore, Election]:
    from tests.backends.memory_backend.store import MemoryElection, MemoryPointers

    name = url.partition(":")[2]
    if not name:
        raise Misconfigured("an address of pointers in memory has a name: memory:NAME")
    return MemoryPointers(name), MemoryElection(settings.advertise)


BACKEND = Backend("memory:NAME", pointers=_pointers)

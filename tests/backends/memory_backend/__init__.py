"""Pointers and an election in the memory of one process: for one replica."""

from milepost_backends.contract import Backend, Election, Misconfigured, PointersSettings, PointerStore


def _pointers(url: str, settings: PointersSettings) -> tuple[PointerStore, Election]:
    from tests.backends.memory_backend.election import MemoryElection
    from tests.backends.memory_backend.pointers import MemoryPointers

    name = url.partition(":")[2]
    if not name:
        raise Misconfigured("an address of pointers in memory has a name: memory:NAME")
    return MemoryPointers(name), MemoryElection(name, settings.advertise)


BACKEND = Backend("memory:NAME", pointers=_pointers)

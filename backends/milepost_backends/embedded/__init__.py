"""The embedded backend keeps pointers in SQLite and elects by a file lock: for one machine, with nothing to install."""

from pathlib import Path

from milepost_backends.contract import Backend, Election, Misconfigured, PointersSettings, PointerStore


def _pointers(url: str, settings: PointersSettings) -> tuple[PointerStore, Election]:
    from milepost_backends.embedded.election import EmbeddedElection
    from milepost_backends.embedded.pointers import EmbeddedPointers

    directory = url.partition(":")[2]
    if not directory:
        raise Misconfigured("an address of embedded pointers must name a directory: embedded:DIR")
    return (
        EmbeddedPointers(Path(directory), accept_loss=settings.accept_loss),
        EmbeddedElection(Path(directory), settings.advertise),
    )


BACKEND = Backend("embedded:DIR", pointers=_pointers)

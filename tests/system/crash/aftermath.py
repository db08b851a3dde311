"""What lies in the backends when all is over, looked at without the server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from milepost_backends.local.blobs import LocalBlobs
from milepost_server.model.records import Handle
from tests.support.servers.replicas import PROMPT, embedded, rig
from tests.support.states import stored_states
from tests.support.waiting import until


@dataclass(frozen=True)
class Aftermath:
    """How many handles and blobs there are, and how many blobs nothing named before the collector came."""

    handles: int
    blobs: int
    orphans: int


def inspect(directory: Path) -> Aftermath:
    """No pointer dangles; and what no pointer names, the collector of the next leadership finds."""
    return asyncio.run(_inspect(directory))


async def _inspect(directory: Path) -> Aftermath:
    at_once = replace(PROMPT, collect_after_seconds=0.0, collect_interval_seconds=0.1, maintenance_interval_seconds=0.1)
    blobs = LocalBlobs(directory / "blobs")
    await blobs.open()
    before = await stored_states(blobs)
    async with rig(embedded(directory), at_once) as running:
        records = running.replica.journal.read().view.state.records.values()
        handles = [record for record in records if isinstance(record, Handle) and not record.gone]
        named = {record.blob: record.size for record in handles if record.data is None}
        assert named.items() <= before.items(), "a pointer names a blob that is not there, or not whole"

        async def collected() -> bool:
            return (await stored_states(blobs)).keys() == named.keys()

        await until(collected)
    await blobs.close()
    return Aftermath(len(handles), len(before), len(before) - len(named))

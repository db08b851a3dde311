"""What lies in a blob store but the deployment marker: the bytes of states."""

from __future__ import annotations

from milepost_backends.contract import BlobStore
from milepost_server.blobs.deployment_marker import DIRECTORY


def is_state(key: str) -> bool:
    """Whether a blob's key is that of a state, and not the deployment marker's."""
    return not key.startswith(f"{DIRECTORY}/")


async def stored_states(blobs: BlobStore) -> dict[str, int]:
    """The sizes of all blobs that belong to states, by their keys."""
    return {info.key: info.size async for info in blobs.list("", 0.0) if is_state(info.key)}

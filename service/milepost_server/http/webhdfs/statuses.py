"""Say what files and directories are, in the JSON of WebHDFS."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from milepost_server.basics.pieces import JsonList
from milepost_server.model.trees import Entry
from milepost_server.operations.trees import Summary

_BLOCK_BYTES = 128 * 1024 * 1024
_UNKNOWN = 2**63 - 1
OWNER = "milepost"

SERVER_DEFAULTS: dict[str, Any] = {
    "blockSize": _BLOCK_BYTES,
    "bytesPerChecksum": 512,
    "checksumType": 2,
    "defaultStoragePolicyId": 7,
    "encryptDataTransfer": False,
    "fileBufferSize": 65536,
    "keyProviderUri": "",
    "replication": 1,
    "trashInterval": 0,
    "writePacketSize": 65536,
}
"""What HDFS says of itself; Hadoop's client asks for it before some operations."""


def file_status(entry: Entry, name: str) -> dict[str, Any]:
    """Return the status of an entry. ``name`` is its last part in a listing, else empty."""
    modified = round(datetime.fromisoformat(entry.modified).timestamp() * 1000)
    directory = entry.directory
    return {
        "accessTime": 0 if directory else modified,
        "blockSize": 0 if directory else _BLOCK_BYTES,
        "childrenNum": 0,
        "fileId": entry.created_revision,
        "group": OWNER,
        "length": entry.size,
        "modificationTime": modified,
        "owner": OWNER,
        "pathSuffix": name,
        "permission": "755" if directory else "644",
        "replication": 0 if directory else 1,
        "storagePolicy": 0,
        "type": "DIRECTORY" if directory else "FILE",
    }


def block_locations(entry: Entry, start: int, length: int | None) -> list[dict[str, Any]]:
    """Return where the bytes from ``start`` on are, at most so many: one block at ``localhost``, as Hadoop says of all
    file systems whose machines are not to be told apart. A directory and an empty range have none.
    """
    if start >= entry.size or length == 0:
        return []
    return [
        {
            "cachedHosts": [],
            "corrupt": False,
            "hosts": ["localhost"],
            "length": entry.size,
            "names": ["localhost:9866"],
            "offset": 0,
            "storageIds": [],
            "storageTypes": ["DISK"],
            "topologyPaths": ["/default-rack/localhost:9866"],
        }
    ]


def content_summary(summary: Summary) -> dict[str, Any]:
    """Return how much is in a directory, itself included. There are no quotas, and snapshots are counted as nothing."""
    return {
        "directoryCount": summary.directories,
        "ecPolicy": "Replicated",
        "fileCount": summary.files,
        "length": summary.bytes,
        "snapshotDirectoryCount": 0,
        "snapshotFileCount": 0,
        "snapshotLength": 0,
        "snapshotSpaceConsumed": 0,
        **_used(summary),
    }


def quota_usage(summary: Summary) -> dict[str, Any]:
    """Return how much of its quotas a directory has used: it has none."""
    return {"fileAndDirectoryCount": summary.files + summary.directories, **_used(summary)}


def _used(summary: Summary) -> dict[str, Any]:
    return {"quota": -1, "spaceConsumed": summary.bytes, "spaceQuota": -1, "typeQuota": {}}


def file_system_status(summary: Summary) -> dict[str, int]:
    """Return how much of a file system is used. How much there is nobody knows, for which Hadoop has this number."""
    return {"capacity": _UNKNOWN, "remaining": _UNKNOWN - summary.bytes, "used": summary.bytes}


class Statuses:
    """The statuses of a directory's entries, made while they are found, so that a long one holds nobody up.

    Of those that are ``given``, the first ``most`` are shown.
    """

    def __init__(self, most: int | None = None) -> None:
        self.given = 0
        self._most = most
        self._statuses = JsonList()

    def add(self, name: str, entry: Entry) -> None:
        """Add the entry that is there under a name."""
        self.given += 1
        if self._most is None or self.given <= self._most:
            self._statuses.add(file_status(entry, name))

    def pieces(self) -> list[bytes]:
        """Return the JSON of all that are shown, in pieces."""
        return [b'{"FileStatus":', *self._statuses.build().pieces, b"}"]

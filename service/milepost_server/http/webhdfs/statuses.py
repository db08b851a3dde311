"""Describes files and directories in the JSON of WebHDFS."""

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
"""The defaults of an HDFS server; Hadoop's client requests them before some operations."""


def file_status(entry: Entry, name: str) -> dict[str, Any]:
    """Return the WebHDFS status of an entry, a file or a directory. ``name`` is its name in a listing, and empty
    outside of a listing.
    """
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
    """Return the location of a file's bytes: the whole file as one block at ``localhost``, which Hadoop uses for file
    systems whose data is on no particular machine. Empty for a directory, and if the range of ``length`` bytes from
    ``start`` on is empty.
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
    """Return Hadoop's content summary of a directory: the number of entries in it, including itself, and their size.
    There are no quotas, and files that only snapshots show do not count.
    """
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
    """Return the numbers of Hadoop's quota report on a directory, which has no quotas."""
    return {"fileAndDirectoryCount": summary.files + summary.directories, **_used(summary)}


def _used(summary: Summary) -> dict[str, Any]:
    return {"quota": -1, "spaceConsumed": summary.bytes, "spaceQuota": -1, "typeQuota": {}}


def file_system_status(summary: Summary) -> dict[str, int]:
    """Return Hadoop's status of a file system: the used size. The capacity is unknown, for which Hadoop uses the number
    2**63 - 1.
    """
    return {"capacity": _UNKNOWN, "remaining": _UNKNOWN - summary.bytes, "used": summary.bytes}


class Statuses:
    """The WebHDFS statuses of a directory's entries, as JSON. Each status is encoded when it is added, so that a long
    directory does not delay other requests.

    ``given`` is how many entries were added. Only the first ``most`` of them are shown; all if it is None.
    """

    def __init__(self, most: int | None = None) -> None:
        self.given = 0
        self._most = most
        self._statuses = JsonList()

    def add(self, name: str, entry: Entry) -> None:
        """Add the status of ``entry``, whose name in the directory is ``name``."""
        self.given += 1
        if self._most is None or self.given <= self._most:
            self._statuses.add(file_status(entry, name))

    def pieces(self) -> list[bytes]:
        """Return the JSON of the shown entries, in pieces."""
        return [b'{"FileStatus":', *self._statuses.build().pieces, b"}"]


def list_pieces(listed: Statuses) -> list[bytes]:
    """Return the JSON answer to LISTSTATUS, in pieces."""
    return [b'{"FileStatuses":', *listed.pieces(), b"}"]

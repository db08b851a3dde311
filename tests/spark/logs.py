"""A checkpoint in memory, with the logs that Spark keeps in one."""

from __future__ import annotations

import json


class Logs:
    """The files of a checkpoint by their paths, as `milepost.spark.tree.CheckpointTree` shows them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put(self, path: str, content: str) -> None:
        """Write a file."""
        self.files[path] = content.encode()

    def write(self, path: str, content: bytes) -> None:
        """Write a file, in the place of one that is there."""
        self.files[path] = content

    def delete(self, path: str) -> None:
        """Delete a file if it is there."""
        self.files.pop(path, None)

    def names(self, directory: str) -> list[str]:
        """What is directly in a directory."""
        below = (path.removeprefix(f"{directory}/") for path in self.files if path.startswith(f"{directory}/"))
        return sorted({path.partition("/")[0] for path in below})

    def read(self, path: str) -> bytes | None:
        """What a file holds."""
        return self.files.get(path)


def left(logged: int, committed: int) -> Logs:
    """What a query leaves that has logged and committed these batches last."""
    logs = Logs()
    logs.put("metadata", '{"id":"4b3e"}')
    for batch in range(logged + 1):
        logs.put(f"offsets/{batch}", 'v1\n{"conf":{"k":"logged"}}\n' + json.dumps({"logOffset": batch}))
    for batch in range(committed + 1):
        logs.put(f"commits/{batch}", "v1\n{}")
    return logs

"""Reads what a job has published without the SDK: by docs/state.md and the job record alone.

It knows one state of one variable, whose key is a text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pyarrow.parquet as parquet

Read = Callable[[str], bytes]
List = Callable[[str], list[str]]
Value = tuple[Any, ...]

_FAMILY = "value:count"
_PUT, _REMOVE = 1, 2


def published_rows(record: bytes, out: Path) -> dict[int, list[Value]]:
    """The rows of each batch that the record names, by the chain of pages."""
    found: dict[int, list[Value]] = {}
    link = json.loads(record)["manifest"]["page"]
    while link is not None:
        content = (out / link["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == link["sha256"], link["file"]
        page = json.loads(content)
        for batch, directory, files in page["batches"]:
            assert batch not in found, f"batch {batch} is published twice"
            found[batch] = []
            for name, size in files:
                path = out / directory / name
                assert path.stat().st_size == size, path
                found[batch] += [tuple(row.values()) for row in parquet.ParquetFile(path).read().to_pylist()]
        link = page["previous"]
    return found


def layouts(record: bytes) -> list[tuple[int, dict[str, Value]]]:
    """The last snapshot of each layout that is kept, as `state` takes it: its number, and where its commits are."""
    document = json.loads(record)["state"]["state"]
    ends = [layout[1] for layout in document["eras"][1:]] + [document["version"]]
    found = []
    for (number, _, commits), end in zip(document["eras"], ends, strict=True):
        places = {
            f"0/{partition}/state.{number}x{len(commits)}": (version, id)
            for partition, (version, id) in enumerate(commits)
        }
        found.append((end, places))
    return found


def state(commits: dict[str, Value], read: Read, names: List) -> dict[str, Value]:
    """Read a snapshot: of each store the commit, those before it, and the runs of the newest of them that has any."""
    found: dict[str, Value] = {}
    for place, (version, id) in commits.items():
        there = set(names(place))
        head, rows = _file(read(f"{place}/{version}_{id}.delta"), id)
        family = head["families"].get(_FAMILY, [None])[0]
        chain: list[list[Any]] = []
        for older, older_id in [[version, id], *head["lineage"]]:
            snapshot = next((name for name in there if name.startswith(f"{older}_{older_id}_")), None)
            if snapshot is not None and snapshot.endswith(".snapshot"):
                chain.append(list(_runs(place, read, snapshot)))
                break
            chain.append(rows if older == version else _file(read(f"{place}/{older}_{older_id}.delta"), older_id)[1])
        else:
            assert len(chain) == version, f"{place} does not reach back to its beginning"
        values: dict[bytes, bytes] = {}
        for one in reversed(chain):
            _do(values, one, family)
        assert len(values) == sum(1 for key in values if _word(key) not in found), f"a key is in {place} and elsewhere"
        found |= {_word(key): tuple(msgpack.unpackb(value[1:])) for key, value in values.items()}
    return found


def _do(values: dict[bytes, bytes], rows: list[Any], family: int | None) -> None:
    for number, key, act, value in rows:
        if number == family:
            assert act in (_PUT, _REMOVE), "nothing is appended to values"
            if act == _PUT:
                values[key] = value
            else:
                values.pop(key, None)


def _runs(place: str, read: Read, snapshot: str) -> Iterator[Any]:
    head, _ = _file(read(f"{place}/{snapshot}"), snapshot.rpartition("_")[2].partition(".")[0])
    for run in head["runs"]:
        for part in run["parts"]:
            name = part["name"]
            yield from _file(read(f"{place}/{name}"), name.rpartition("_")[2].partition(".")[0])[1]


def _file(content: bytes, id: str) -> tuple[dict[str, Any], list[Any]]:
    """The head and the rows of a file, whose name proves it."""
    length = 8 + int.from_bytes(content[4:8], "little")
    assert hashlib.sha256(content[:length]).hexdigest()[:32] == id, "the name does not prove the head"
    with pa.ipc.open_stream(content) as stream:
        head = json.loads(stream.schema.metadata[b"milepost.state"])
        for one in head["batches"]:
            message = content[length + one["offset"] : length + one["offset"] + one["length"]]
            assert hashlib.sha256(message).hexdigest() == one["sha256"], "a record batch has another digest"
        rows = [row for batch in stream.read_all().to_pylist() for row in _rows(batch)]
    return head, rows


def _rows(batch: dict[str, Any]) -> Iterator[tuple[int, bytes, int, bytes]]:
    """The rows of a record batch: the number of the column family, the key, what was done to it, and the value."""
    keys, values, key = batch["keys"], batch["values"], b""
    for op, shared, length, size in zip(
        batch["op"], batch["shared"], batch["key_length"], batch["value_length"], strict=True
    ):
        differs = length - shared
        key, keys = key[:shared] + keys[:differs], keys[differs:]
        value, values = values[:size], values[size:]
        assert len(key) == length, "the keys end too early"
        assert len(value) == size, "the values end too early"
        yield int.from_bytes(key[:4], "big"), key[4:], op, value
    assert not keys, "there is more of keys than of lengths"
    assert not values, "there is more of values than of lengths"


def _word(key: bytes) -> str:
    """The text of a key: two bytes of its group, a 1, and the length of the text in four bytes in front of it."""
    assert key[2] == 1
    assert int.from_bytes(key[3:7], "big") == len(key) - 7
    return key[7:].decode()

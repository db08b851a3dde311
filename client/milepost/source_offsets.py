"""The offsets of Kafka sources in Spark's offset log: where a query goes on after a batch.

A topic that was deleted and made anew begins at offset 0 again, so what the log says of it leads nowhere. Spark itself
reads the offsets after the last committed batch from the file ``offsets/<batch>``, and `moved` writes such a file anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from milepost.errors import InvalidRequest, WrongCheckpoint
from milepost.wire import Code

TopicOffsets: TypeAlias = Mapping[str, Mapping[str, int]]
"""For each topic and each number of a partition, as text, the offset at which a query goes on."""


def parsed(text: str) -> TopicOffsets:
    """Read offsets from JSON such as ``{"flights": {"0": 0}}``. Raises ValueError for anything else."""
    found = json.loads(text)
    if not _is_offsets(found) or not found:
        raise ValueError(f'{text!r} has not the form {{"topic": {{"0": 0}}}}, with each partition of the topic')
    return dict(found)


def moved(log: bytes, offsets: TopicOffsets) -> bytes:
    """Return ``log``, a file of Spark's offset log, in which each Kafka source goes on in the topics of ``offsets`` at
    the offsets given there. The other topics and sources stay as they are.

    Raises `InvalidRequest` if no source reads one of the topics from Kafka, and `WrongCheckpoint` if ``log`` is no such
    file.
    """
    if log.count(b"\n") < 2:
        raise WrongCheckpoint(f"Spark's offset log of the batch names no source: {log[:100]!r}")
    version, settings, *sources = log.decode().splitlines()
    read: set[str] = set()
    lines = []
    for line in sources:
        name, colon, logged = line.partition(":") if version == "v2" else ("", "", line)
        there = _topics(logged)
        read |= set(there)
        chosen = {topic: dict(offsets[topic]) for topic in there if topic in offsets}
        text = json.dumps({**there, **chosen}, separators=(",", ":")) if chosen else logged
        lines.append(f"{name}{colon}{text}")
    if missing := sorted(set(offsets) - read):
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"the query reads no topic {', '.join(missing)} from Kafka; it reads {', '.join(sorted(read)) or 'none'}",
        )
    return "\n".join([version, settings, *lines]).encode()


def described(offsets: TopicOffsets) -> str:
    """Return the offsets as text for people, such as ``flights 0:0 1:0``."""
    return ", ".join(
        f"{topic} {' '.join(f'{partition}:{offset}' for partition, offset in sorted(of.items()))}"
        for topic, of in sorted(offsets.items())
    )


def _topics(logged: str) -> dict[str, Any]:
    """Return what a line of the log says of topics; empty for a source that is not Kafka."""
    try:
        found = json.loads(logged)
    except ValueError:
        return {}
    return found if _is_offsets(found) else {}


def _is_offsets(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(partitions, dict)
        and partitions
        and all(number.isdecimal() and type(offset) is int and offset >= 0 for number, offset in partitions.items())
        for partitions in found.values()
    )

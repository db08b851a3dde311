"""Connects a worker process to the server that started it: messages over standard input and output, and a bound on the
memory of the process.

A message is two lengths of four bytes, the highest first, then that many bytes of JSON and that many other bytes.
"""

from __future__ import annotations

import json
import resource
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

_LENGTHS = struct.Struct(">II")


class ProcessPipe:
    """The pipe of a worker process: sends messages to the server, from any thread, and receives those of the server,
    in one thread.
    """

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._sends = threading.Lock()

    def receive(self) -> tuple[dict[str, Any], bytes] | None:
        """Return the JSON and the bytes of the next message, None at the end of the input."""
        lengths = self._incoming.read(_LENGTHS.size)
        if len(lengths) < _LENGTHS.size:
            return None
        of_text, of_bytes = _LENGTHS.unpack(lengths)
        return json.loads(self._incoming.read(of_text)), self._incoming.read(of_bytes)

    def send(self, message: Mapping[str, Any], content: bytes = b"") -> None:
        """Send a message of JSON and bytes."""
        text = json.dumps(message, separators=(",", ":")).encode()
        with self._sends:
            self._outgoing.write(_LENGTHS.pack(len(text), len(content)) + text + content)
            self._outgoing.flush()


def bound_memory(more: int) -> None:
    """Limit the memory of this process to ``more`` bytes beside those that it uses now, so that it cannot exhaust the
    memory of the server beside it. Tell the kernel to end this process first if the machine's memory runs out.
    """
    statistics = Path("/proc/self/statm").read_text().split()
    most = int(statistics[5]) * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    with suppress(OSError):  # if the OOM score cannot be set, the memory limit alone protects the machine
        Path("/proc/self/oom_score_adj").write_text("1000")

"""What queries on one large Parquet file of a job take from the blob store, as a multiple of the file's bytes.

    python -m benchmarks.seeks [--rows 800000] [--requests]

One embedded server has its blobs on SeaweedFS, behind a proxy that counts what passes. Spark reads a file of ten
columns over WebHDFS: Hadoop's client asks for the rest of the file at each seek, and closes the connection when it has
enough. For each query, the bytes that came from the blob store are printed as a multiple of the file's size, with the
number of requests. They depend on the machine only by what lies in buffers when a connection is closed.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy
import pyarrow
import pyarrow.parquet

from milepost import Client
from milepost.wire import Header
from testbed.seaweedfs import ALL_RIGHTS, SeaweedFS
from testbed.server import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = 10
_BUCKET = "seeks"
_PIECE = 65536
_ASKED = re.compile(rb"^(GET|HEAD|PUT|POST|DELETE) \S+ HTTP/1\.1\r\n", re.MULTILINE)
_RANGE = re.compile(rb"\r\nrange: bytes=(\d+)-(\d*)", re.IGNORECASE)

QUERIES: Mapping[str, Callable[[DataFrame], object]] = {
    "count(*)": lambda table: table.count(),
    "max of one column": lambda table: table.agg({"c4": "max"}).collect(),
    "limit 1": lambda table: table.limit(1).collect(),
    "limit 1 of one column": lambda table: table.select("c7").limit(1).collect(),
    "max of two columns": lambda table: table.agg({"c1": "max", "c8": "max"}).collect(),
    "all columns": lambda table: table.agg({f"c{number}": "max" for number in range(COLUMNS)}).collect(),
}


class Counting:
    """A proxy in front of an S3 server, and what passed it: bytes of answers, and the requests."""

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.removeprefix("http://").partition(":")
        self._upstream = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self.bytes = 0
        self.heads: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def taken(self) -> tuple[int, list[str]]:
        """Return what passed since the last call: bytes, and the requests."""
        with self._lock:
            taken = self.bytes, self.heads
            self.bytes, self.heads = 0, []
            return taken

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(self._upstream)
            for way in ((near, far, self._asked), (far, near, self._answered)):
                threading.Thread(target=_carry, args=way, daemon=True).start()

    def _asked(self, piece: bytes) -> None:
        for asked in _ASKED.finditer(piece):
            span = _RANGE.search(piece)
            with self._lock:
                self.heads.append(f"{asked[1].decode()} {span[0].decode().strip() if span else ''}")

    def _answered(self, piece: bytes) -> None:
        with self._lock:
            self.bytes += len(piece)


def _carry(source: socket.socket, target: socket.socket, note: Callable[[bytes], None]) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
            note(piece)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def write_table(path: Path, rows: int) -> None:
    """Write columns of numbers that no compression makes smaller, in one group of rows."""
    chance = numpy.random.default_rng(1)
    columns = {f"c{number}": chance.random(rows) for number in range(COLUMNS)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=rows, use_dictionary=False)


@contextmanager
def _spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "ERROR").config("spark.driver.memory", "1g").getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def main() -> None:
    """Print a line for each query."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=800_000, help="rows of the table, 80 bytes each (%(default)s)")
    arguments.add_argument("--requests", action="store_true", help="print each request, too")
    options = arguments.parse_args()
    os.environ.update(ALL_RIGHTS.environment)
    with tempfile.TemporaryDirectory() as place, SeaweedFS(Path(place) / "s3") as s3:
        s3.start()
        s3.make_bucket(_BUCKET)
        counting = Counting(s3.endpoint_url)
        blobs = s3.url(_BUCKET, endpoint_url=counting.url)
        table = Path(place) / "table.parquet"
        write_table(table, options.rows)
        with ServerProcess(Path(place), "--log-level", "warning", blobs=blobs) as server, _spark() as spark:
            server.start()
            with Client(server.url) as client, client.session("benchmark") as session:
                store = session.store("seeks")
                headers = {Header.EPOCH: str(store.campaign().epoch)}
                put = httpx.put(
                    f"{server.url}/v1/stores/seeks/files/table.parquet",
                    content=table.read_bytes(),
                    headers=headers,
                    timeout=60.0,
                )
                put.raise_for_status()
            size = table.stat().st_size
            sys.stdout.write(f"the file has {size / 2**20:.1f} MiB\n")
            address = f"{server.url.replace('http', 'webhdfs')}/jobs/seeks/table.parquet"
            read = spark.read.parquet(address)
            for name, ask in QUERIES.items():
                counting.taken()
                ask(read)
                taken, heads = counting.taken()
                gets = sum(head.startswith("GET") for head in heads)
                sys.stdout.write(f"{name:22} {taken / size:5.2f} x  {gets:3} GET  {len(heads) - gets:3} HEAD\n")
                if options.requests:
                    sys.stdout.writelines(f"    {head}\n" for head in heads)
                sys.stdout.flush()


if __name__ == "__main__":
    main()

"""fsspec's ``webhdfs``, and pyarrow by way of it: they read a job's files, and write none, since they append."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import hdfs_native
import pyarrow
import pytest
from fsspec.implementations.webhdfs import WebHDFS
from pyarrow import fs as arrow
from pyarrow import parquet

from tests.wire.support.api import connect
from tests.wire.webhdfs.clients.conftest import TOKEN, Job
from tests.wire.webhdfs.hadoop import Tree


@pytest.fixture
def files(job: Job) -> Iterator[WebHDFS]:
    """With the driver's own token, where there are tokens: fsspec knows no OAuth2."""
    found: Any = fsspec.filesystem("webhdfs", host="127.0.0.1", port=job.server.port, skip_instance_cache=True)
    found.session.trust_env = False
    found.session.headers.update(job.headers)
    if job.server.flags:
        found.session.headers["Authorization"] = f"Bearer {TOKEN}"
    with found.session:
        yield found


@pytest.fixture
def tree(job: Job) -> Iterator[Tree]:
    """Something that writes."""
    with connect(job.server.url) as http:
        yield Tree(http, job.store.name, job.epoch, TOKEN if job.server.flags else None)


def test_it_lists_reads_in_parts_moves_and_removes(files: WebHDFS, tree: Tree, job: Job, some: Path) -> None:
    tree.create("a/some", some.read_bytes())
    tree.create("a/small", b"v1")
    assert files.ls(f"{job.path}/a", detail=False) == [f"{job.path}/a/small", f"{job.path}/a/some"]
    assert files.info(f"{job.path}/a/some")["size"] == 200_000
    assert files.find(job.path) == [f"{job.path}/a/small", f"{job.path}/a/some"]
    with files.open(f"{job.path}/a/some", "rb", block_size=1000) as opened:
        for start in (1600, 8, 199_992, 0):
            opened.seek(start)
            assert opened.read(8) == some.read_bytes()[start : start + 8]
    assert files.cat_file(f"{job.path}/a/some", 8, 24) == some.read_bytes()[8:24]
    files.mkdir(f"{job.path}/b")
    files.mv(f"{job.path}/a/small", f"{job.path}/b/moved")
    assert files.cat_file(f"{job.path}/b/moved") == b"v1"
    files.rm(f"{job.path}/b", recursive=True)
    assert not files.exists(f"{job.path}/b")


def test_what_it_writes_is_refused_by_name_since_it_appends(files: WebHDFS, job: Job) -> None:
    with pytest.raises(RuntimeError, match="APPEND"), files.open(f"{job.path}/new", "wb") as opened:
        opened.write(b"x")


def test_pyarrow_reads_parquet_through_it(files: WebHDFS, tree: Tree, job: Job) -> None:
    written = io.BytesIO()
    parquet.write_table(pyarrow.table({"number": list(range(50_000))}), written)
    tree.create("out/part-0.parquet", written.getvalue())
    through = arrow.PyFileSystem(arrow.FSSpecHandler(files))
    found = through.get_file_info(arrow.FileSelector(job.path, recursive=True))
    assert [info.path for info in found] == [f"{job.path}/out", f"{job.path}/out/part-0.parquet"]
    assert parquet.read_table(f"{job.path}/out", filesystem=through).column("number").to_pylist()[-1] == 49_999


def test_hdfs_native_speaks_no_webhdfs(job: Job) -> None:
    """It speaks HDFS's own protocol only, as docs/files.md says: this fails once a release of it knows more."""
    with pytest.raises(RuntimeError, match="schemes are supported"):
        hdfs_native.Client(job.location.url)

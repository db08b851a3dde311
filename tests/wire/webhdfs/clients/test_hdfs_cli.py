"""HdfsCLI, which PyPI has as ``hdfs``: it reads and writes a job's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hdfs
import pytest
import requests

from tests.wire.webhdfs.clients.conftest import TOKEN, Job


@pytest.fixture
def files(job: Job) -> Iterator[Any]:
    """With the driver's own token, where there are tokens: it knows no OAuth2."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers.update(job.headers)
        if job.server.flags:
            session.headers["Authorization"] = f"Bearer {TOKEN}"
        yield hdfs.InsecureClient(job.server.url, session=session, root=job.path)


def test_it_writes_and_reads(files: Any, job: Job, some: Path, tmp_path: Path) -> None:
    files.write("a/some", some.read_bytes())
    files.write("a/generated", iter([b"v", b"1"]))
    with pytest.raises(hdfs.HdfsError, match="already exists"):
        files.write("a/generated", b"v2")
    files.write("a/generated", b"v2", overwrite=True)
    assert [(name, status["length"]) for name, status in files.list("a", status=True)] == [
        ("generated", 2),
        ("some", 200_000),
    ]
    with files.read("a/some", offset=8, length=16) as reader:
        assert reader.read() == some.read_bytes()[8:24]
    files.rename("a/generated", "moved")
    files.makedirs("d/e")
    assert list(files.walk("")) == [
        (job.path, ["a", "d"], ["moved"]),
        (f"{job.path}/a", [], ["some"]),
        (f"{job.path}/d", ["e"], []),
        (f"{job.path}/d/e", [], []),
    ]
    assert files.delete("d", recursive=True)
    assert not files.delete("d", recursive=True)
    files.upload("copied", str(some))
    files.download("copied", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == some.read_bytes()
    with pytest.raises(hdfs.HdfsError, match="APPEND"):
        files.write("moved", b"x", append=True)
    counted = files.content("a")
    assert (counted["fileCount"], counted["directoryCount"], counted["length"]) == (1, 1, 200_000)
    with pytest.raises(hdfs.HdfsError, match="GETACLSTATUS"):
        files.acl_status("a")


def test_a_deposed_driver_is_refused(files: Any, job: Job) -> None:
    files.write("file", b"v1")
    job.store.resign()
    now = job.store.campaign().epoch
    with pytest.raises(hdfs.HdfsError, match=f"the current one of '{job.store.name}' is {now}"):
        files.write("file", b"v2", overwrite=True)
    with files.read("file") as reader:
        assert reader.read() == b"v1"

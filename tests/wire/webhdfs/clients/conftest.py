"""A service with tokens and one without, the job that a driver leads on each, and one JVM with the jars of PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost.core.checkpoint_location import CheckpointLocation, checkpoint_location
from testbed.server import ServerProcess
from tests.wire.support.api import unique

TOKEN = "writer-token-0123456789"


@dataclass(frozen=True)
class Job:
    """A job that is led: where its files are, and what its clients have to say to write them."""

    server: ServerProcess
    store: milepost.StateHandleStore
    location: CheckpointLocation
    epoch: int

    @property
    def root(self) -> str:
        """The directory of the job, as Hadoop names it."""
        return self.location.url.rpartition("/")[0]

    @property
    def path(self) -> str:
        """The same without the address."""
        return f"/jobs/{self.store.name}"

    @property
    def headers(self) -> dict[str, str]:
        """The epoch, for clients that can be told to send a header."""
        return {f"X-Milepost-{self.store.name}-{self.epoch}": "x"}


@pytest.fixture(scope="module", params=["open", "tokens"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp(request.param)
    (directory / "tokens").write_text(f"writer {TOKEN}\n")
    flags = ("--token-file", str(directory / "tokens")) if request.param == "tokens" else ()
    with ServerProcess(directory, *flags) as server:
        yield server.start()


@pytest.fixture
def job(service: ServerProcess) -> Iterator[Job]:
    """A job of its own for each test."""
    token = TOKEN if service.flags else None
    with milepost.Client(service.url, token=token) as client, client.session(ttl=60, holder="driver") as session:
        store = session.store(unique("job"))
        epoch = store.campaign().epoch
        credential = store.file_credential()
        assert (credential is None) is (token is None)
        yield Job(service, store, checkpoint_location([service.url], store.name, epoch, credential=credential), epoch)


@dataclass(frozen=True)
class Ran:
    """How a command of Hadoop's shell ended."""

    status: int
    out: str
    error: str


@dataclass(frozen=True)
class Shell:
    """Hadoop's shell, ``hdfs dfs``, command after command in one JVM, and the file system that it uses."""

    gateway: Any

    def configuration(self, job: Job, **other: str) -> Any:
        """The job's settings, with ``other`` ones by names whose dots are underscores."""
        configuration = self.gateway.jvm.org.apache.hadoop.conf.Configuration()
        for name, value in {
            **job.location.settings,
            **{key.replace("_", "."): each for key, each in other.items()},
        }.items():
            configuration.set(name, value)
        return configuration

    def path(self, job: Job, path: str) -> Any:
        """A path of Hadoop's, in the job's directory."""
        return self.gateway.jvm.org.apache.hadoop.fs.Path(f"{job.root}/{path}")

    def file_system(self, job: Job, **other: str) -> Any:
        """Hadoop's ``FileSystem`` under the same settings."""
        return self.path(job, "any").getFileSystem(self.configuration(job, **other))

    def run(self, job: Job, *arguments: str, **other: str) -> Ran:
        """Run one command under the job's settings and ``other`` ones."""
        jvm, configuration = self.gateway.jvm, self.configuration(job, **other)
        given = self.gateway.new_array(jvm.java.lang.String, len(arguments))
        for number, argument in enumerate(arguments):
            given[number] = argument
        out, error = jvm.java.io.ByteArrayOutputStream(), jvm.java.io.ByteArrayOutputStream()
        system, shell = jvm.java.lang.System, jvm.org.apache.hadoop.fs.FsShell()
        before = jvm.java.lang.System.out, jvm.java.lang.System.err
        system.setOut(jvm.java.io.PrintStream(out))
        system.setErr(jvm.java.io.PrintStream(error))
        try:
            status = jvm.org.apache.hadoop.util.ToolRunner.run(configuration, shell, given)
        finally:
            system.setOut(before[0])
            system.setErr(before[1])
            shell.close()
        return Ran(status, out.toString(), error.toString())


@contextmanager
def launched(**environment: str) -> Iterator[Shell]:
    """Of the jars that PySpark brings: no Hadoop is installed. The JVM has these variables in its environment."""
    from pyspark.java_gateway import launch_gateway

    launch: Any = launch_gateway
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        gateway = launch()
    try:
        yield Shell(gateway)
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=60)


@pytest.fixture(scope="session")
def shell() -> Iterator[Shell]:
    """The JVM of most tests."""
    with launched() as made:
        yield made


@pytest.fixture
def some(tmp_path: Path) -> Path:
    """A file of 200,000 bytes, each run of which occurs once."""
    path = tmp_path / "some"
    path.write_bytes(b"".join(b"%7d\n" % number for number in range(25_000)))
    return path

"""Hadoop's own client while the name of the service does not resolve, or while nobody listens there.

What is pinned here of Hadoop is why a lone address is no name service: docs/decisions/0087.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from milepost.core.checkpoint_location import checkpoint_location
from tests.wire.webhdfs.clients.conftest import Job, Shell, launched

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("service", ["open"], indirect=True)]

CORE_SITE = """<configuration>
  <property><name>hadoop.security.token.service.use_ip</name><value>false</value></property>
</configuration>"""
UNKNOWN = f"127.0.0.1 {socket.gethostname()}\n"  # for Spark itself
KNOWN = f"{UNKNOWN}127.0.0.1 localhost\n"
AWAY_SECONDS = 2.0


@dataclass(frozen=True)
class Named:
    """A JVM, and the file in which it looks names up, each time anew."""

    shell: Shell
    hosts: Path


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    """A JVM whose ``core-site.xml`` is that of docs/spark.md."""
    directory = tmp_path_factory.mktemp("conf")
    (directory / "core-site.xml").write_text(CORE_SITE)
    (hosts := directory / "hosts").write_text(KNOWN)
    java = f"-Djdk.net.hosts.file={hosts} -Dsun.net.inetaddr.ttl=0 -Dsun.net.inetaddr.negative.ttl=0"
    options = f'--driver-java-options "{java}" pyspark-shell'
    with launched(HADOOP_CONF_DIR=str(directory), PYSPARK_SUBMIT_ARGS=options) as shell:
        yield Named(shell, hosts)


@pytest.fixture
def away(named: Named) -> Iterator[None]:
    """No name resolves for two seconds."""
    named.hosts.write_text(UNKNOWN)
    back = threading.Timer(AWAY_SECONDS, lambda: named.hosts.write_text(KNOWN))
    back.start()
    yield
    back.join()


def by_name(job: Job, *, authority: str | None = None) -> Job:
    """The job at an address with a name in it."""
    url = job.server.url.replace("127.0.0.1", "localhost")
    return replace(job, location=checkpoint_location([url], job.store.name, job.epoch, authority=authority))


@pytest.mark.usefixtures("away")
def test_a_file_system_that_is_made_meanwhile_waits_for_the_name(named: Named, job: Job) -> None:
    job = by_name(job)
    files = named.shell.file_system(job)
    assert files.mkdirs(named.shell.path(job, "a"))


def test_by_default_hadoop_makes_no_file_system_of_a_name_that_does_not_resolve(shell: Shell, job: Job) -> None:
    nameless = "x" * 64  # no DNS can have it, so none is asked
    lone = replace(job, location=checkpoint_location([f"http://{nameless}:7070"], job.store.name, job.epoch))
    with pytest.raises(Py4JJavaError, match=rf"IllegalArgumentException: java\.net\.UnknownHostException: {nameless}"):
        shell.file_system(lone)


def test_a_lone_server_is_waited_for_by_its_address_and_not_by_a_name_service(named: Named, job: Job) -> None:
    def asked(job: Job) -> bool:
        return bool(named.shell.file_system(job).mkdirs(named.shell.path(job, "a")))

    with ThreadPoolExecutor(1) as beside:
        job.server.kill()
        try:
            waiting = beside.submit(asked, by_name(job))
            with pytest.raises(Py4JJavaError, match=r"ConnectException: .*Connection refused"):
                asked(by_name(job, authority="milepost"))
            assert not waiting.done()
        finally:
            job.server.start()
        assert waiting.result(60)


def test_hdfs_on_the_host_of_a_server_that_moved_is_reached_there(named: Named, job: Job) -> None:
    """The host of the job's first address names the service, in the session, and a NameNode may be there, too."""
    moved = by_name(job, authority="localhost:1")
    assert named.shell.file_system(moved).mkdirs(named.shell.path(moved, "a"))
    path = named.shell.gateway.jvm.org.apache.hadoop.fs.Path("hdfs://localhost:9000/input")
    assert path.getFileSystem(named.shell.configuration(moved)).getUri().toString() == "hdfs://localhost:9000"

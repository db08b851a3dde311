"""Hadoop's client where ``core-site.xml`` says Kerberos, as on clusters whose HDFS wants it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.webhdfs.clients.conftest import Job, Shell, launched

pytestmark = pytest.mark.spark

CORE_SITE = """<configuration>
  <property><name>hadoop.security.authentication</name><value>kerberos</value></property>
</configuration>"""
REALM = "-Djava.security.krb5.realm=EXAMPLE.COM -Djava.security.krb5.kdc=127.0.0.1:9"
FALL_BACK = {"ipc_client_fallback-to-simple-auth-allowed": "true"}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A JVM for which security is Kerberos. Nobody is asked for a ticket: no KDC is there."""
    directory = tmp_path_factory.mktemp("conf")
    (directory / "core-site.xml").write_text(CORE_SITE)
    options = f'--driver-java-options "{REALM}" pyspark-shell'
    with launched(HADOOP_CONF_DIR=str(directory), PYSPARK_SUBMIT_ARGS=options) as made:
        yield made


def test_files_are_put_and_read_with_the_fall_back(shell: Shell, job: Job, some: Path) -> None:
    assert shell.gateway.jvm.org.apache.hadoop.security.UserGroupInformation.isSecurityEnabled()
    for arguments in (
        ("-mkdir", "-p", f"{job.root}/a/b"),
        ("-put", str(some), f"{job.root}/a/some"),
        ("-mv", f"{job.root}/a/some", f"{job.root}/a/b/some"),
    ):
        ran = shell.run(job, *arguments, **FALL_BACK)
        assert ran.status == 0, ran
    assert shell.run(job, "-cat", f"{job.root}/a/b/some", **FALL_BACK).out == some.read_text()


def test_without_the_fall_back_hadoop_itself_says_why(shell: Shell, job: Job) -> None:
    ran = shell.run(job, "-ls", job.root)
    assert ran.status != 0
    assert "configured to only allow connecting to secure cluster" in ran.error, ran

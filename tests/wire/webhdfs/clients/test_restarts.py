"""Hadoop's own client, whose JVM keeps connections, at a service that is started again within seconds."""

from __future__ import annotations

import pytest

from tests.wire.webhdfs.clients.conftest import Job, Shell

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("service", ["open"], indirect=True)]

KEPT = 5
"""As many as Java keeps for one address."""


def test_a_file_is_not_sent_over_a_connection_of_the_time_before(job: Job, shell: Shell) -> None:
    """Java sends a body over a connection that it kept, and fails if that is dead. By itself it keeps one for 5 s."""
    files = shell.file_system(job)

    def write(names: list[str]) -> None:
        streams = [files.create(shell.path(job, name), True) for name in names]
        for name, stream in zip(names, streams, strict=True):
            stream.write(bytearray(name, "utf-8"))
        for stream in streams:
            stream.close()

    write([f"before-{number}" for number in range(KEPT)])
    job.server.terminate()
    assert job.server.wait() == 0
    job.server.start()
    write(["after"])
    assert bytes(files.open(shell.path(job, "after")).readAllBytes()) == b"after"

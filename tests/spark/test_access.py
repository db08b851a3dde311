"""The Spark side reaches a service as `milepost.Client` does: over TLS with a CA of its own, with a token that is
called for at each attempt, and for no longer than it is told to wait.
"""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme
from anyio.from_thread import start_blocking_portal

import milepost.spark
from milepost.errors import AccessDenied, ConnectionFailed
from milepost.spark import published_batches, read_published
from testbed.ports import Port
from testbed.server import ServerProcess
from tests.support.network.link import link

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_it_takes_what_a_client_takes(spark: SparkSession, name: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    ours, theirs = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(ours)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    tokens = tmp_path / "tokens"
    tokens.write_text("driver the-token-of-drivers\n")
    tokens.chmod(0o600)
    called: list[float] = []

    def token() -> str:
        called.append(time.monotonic())
        return "the-token-of-drivers"

    with (
        ServerProcess(tmp_path, "--token-file", str(tokens)) as server,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(link(server.start().port, theirs)) as sidecar,
    ):
        url = f"https://{sidecar.address}"
        with milepost.spark.lead(spark, url, name, workdir=tmp_path, wait=60.0, token=token, verify=ours) as job:
            assert job.checkpointLocation
        assert len(called) > 3
        assert published_batches(spark, url, name, token=token, verify=ours) == []
        assert read_published(spark, url, name, token=token, verify=ours).columns == ["batch"]
        with pytest.raises(AccessDenied), milepost.spark.lead(spark, url, name, wait=60.0, verify=ours):
            pass
        with (
            pytest.raises(ConnectionFailed, match="CERTIFICATE"),
            milepost.spark.lead(spark, url, name, wait=1.0, token=token),
        ):
            pass


def test_the_wait_bounds_the_search_for_a_service(spark: SparkSession, name: str, tmp_path: Path) -> None:
    began = time.monotonic()
    with (
        Port() as nobody,
        pytest.raises(ConnectionFailed),
        milepost.spark.lead(spark, f"http://{nobody.address}", name, workdir=tmp_path, wait=1.0, timeout=300.0),
    ):
        pass
    assert time.monotonic() - began < 100.0

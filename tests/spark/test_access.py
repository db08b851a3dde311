"""The Spark side reaches a service as `milepost.Client` does: over TLS with a CA of its own, with a token that is
called for at each attempt, and for no longer than it is told to wait.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import trustme
from py4j.protocol import Py4JJavaError

import milepost
import milepost.spark
from milepost.core.checkpoint_location import CREDENTIAL
from milepost.errors import AccessDenied, ConnectionFailed, Fenced, WrongCheckpoint
from milepost.spark import published_batches, read_published
from milepost.state.errors import FilesError
from milepost.state.store import TreeFiles
from testbed.ports import Port
from testbed.server import ServerProcess
from tests.spark.driver.test_takeover import succeed
from tests.spark.jobs import Place, finish
from tests.spark.stateful.processors import COUNTED, Count
from tests.spark.stateful.texts import WORDS, write_texts
from tests.spark.tls import (
    TOKEN,
    Serving,
    address,
    behind_tls,
    speaking_tls,
    token_flags,
    trust_store,
    trusting,
    wanting_certificates,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

REDACTION = "spark.sql.redaction.options.regex"


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(spark: SparkSession, authority: trustme.CA, tmp_path: Path) -> Iterator[None]:
    """Spark's JVM trusts the authority: its trust store names it, as a driver's and its executors' options would."""
    settings, system = (
        trust_store(authority, tmp_path / "trusted.p12"),
        cast(Any, spark.sparkContext._jvm).java.lang.System,
    )
    for name, value in settings.items():
        system.setProperty(name, value)
    yield
    for name in settings:
        system.clearProperty(name)


@pytest.fixture
def tokens(tmp_path: Path) -> tuple[str, ...]:
    """The flags of a service that wants a token of each client."""
    return token_flags(tmp_path)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("serving", [speaking_tls, wanting_certificates, behind_tls])
def test_a_job_runs_over_tls(
    place: Place, authority: trustme.CA, tmp_path: Path, tokens: tuple[str, ...], serving: Serving
) -> None:
    """With an authority that nobody knows but the SDK, which is told, and Spark's JVM; and with tokens."""
    authority.cert_pem.write_to_path(known := tmp_path / "known.crt")
    ours = trusting(authority) if serving is wanting_certificates else known
    with serving(authority, tmp_path, *tokens) as server:
        url = address(server)
        with milepost.spark.lead(place.spark, url, place.name, wait=60.0, verify=ours, token=TOKEN) as job:
            assert job.checkpointLocation.startswith("swebhdfs://127.0.0.1:")
            assert place.spark.conf.get("dfs.webhdfs.oauth2.refresh.url") == f"{url}/oauth2/token"
            finish(job, place.start(job, job.files(place.output), "aggregation"))
        assert len(published_batches(place.spark, url, place.name, verify=ours, token=TOKEN)) == 2
        with (
            pytest.raises(ConnectionFailed, match="CERTIFICATE"),
            milepost.spark.lead(place.spark, url, place.name, wait=1.0),
        ):
            pass


@pytest.mark.usefixtures("trusted")
def test_managed_state_reaches_the_tree_as_the_driver_does(
    place: Place, authority: trustme.CA, tmp_path: Path, tokens: tuple[str, ...]
) -> None:
    """Tasks show the driver's certificate and read its token from the same file."""
    mine = authority.issue_cert("driver@example.org")
    authority.cert_pem.write_to_path(known := tmp_path / "known.crt")
    mine.cert_chain_pems[0].write_to_path(shown := tmp_path / "driver.crt")
    mine.private_key_pem.write_to_path(proof := tmp_path / "driver.key")
    (tmp_path / "mounted").write_text(f"{TOKEN}\n")
    access: dict[str, Any] = {
        "verify": str(known),
        "cert": str(shown),
        "key": str(proof),
        "token_file": str(tmp_path / "mounted"),
    }
    counts = write_texts(place.directory / "texts", 2, 60)
    with wanting_certificates(authority, tmp_path, *tokens) as server:
        url = address(server)
        with milepost.spark.lead(place.spark, url, place.name, wait=60.0, **access) as job:

            def transform(frame: DataFrame, _context: Any) -> DataFrame:
                return milepost.spark.stateful(
                    job, frame, key="word", processor=Count(), output_type=COUNTED, partitions=2
                )

            texts = place.spark.readStream.option("maxFilesPerTrigger", 1).text(str(place.directory / "texts"))
            writer = texts.selectExpr(WORDS).writeStream.option("checkpointLocation", job.checkpointLocation)
            function = job.files(place.output, transform=transform)
            finish(job, writer.foreachBatch(function).trigger(availableNow=True).start())
        with (
            milepost.Client(url, **access) as client,
            closing(TreeFiles(url, place.name, None, **access)) as tree,
        ):
            reader = milepost.spark.state_reader(client.store(place.name), tree)
            assert {entry.key[0]: entry.value[0] for entry in reader.entries("count")} == sum(counts, Counter())
        without = closing(TreeFiles(url, place.name, None, **{**access, "token_file": None}))
        with without as stranger, pytest.raises(FilesError, match="token"):
            stranger.list("0")


@pytest.mark.usefixtures("trusted")
def test_the_environment_says_where_the_service_is(
    place: Place, authority: trustme.CA, tmp_path: Path, tokens: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(known := tmp_path / "known.crt")
    (tmp_path / "mounted").write_text(f"{TOKEN}\n")
    with speaking_tls(authority, tmp_path, *tokens) as server:
        monkeypatch.setenv("MILEPOST_URL", address(server))
        monkeypatch.setenv("MILEPOST_CA", str(known))
        monkeypatch.setenv("MILEPOST_TOKEN_FILE", str(tmp_path / "mounted"))
        with milepost.spark.lead(place.spark, job=place.name, wait=60.0) as job:
            assert repr(job) == f"<Job {place.name!r}, epoch 1, published up to batch -1>"
            finish(job, place.start(job, job.files(place.output), "aggregation"))
        assert len(published_batches(place.spark, job=place.name)) == 2
        assert read_published(place.spark, job=place.name).count() > 0
        with pytest.raises(milepost.InvalidName), milepost.spark.lead(place.spark):
            pass


def test_a_service_that_spark_does_not_trust(place: Place, authority: trustme.CA, tmp_path: Path) -> None:
    with (
        behind_tls(authority, tmp_path) as server,
        pytest.raises(WrongCheckpoint, match=r"Spark cannot read .*ssl"),
        replace(place, url=address(server)).lead(timeout=2.0, verify=trusting(authority)),
    ):
        pass


def test_on_a_service_with_tokens_spark_has_those_of_its_job_alone(
    place: Place, tmp_path: Path, tokens: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """They are worth nothing once another driver leads, and nobody gets to see what they are made of."""
    caplog.set_level("DEBUG", "milepost")
    called: list[float] = []

    def token() -> str:
        called.append(time.monotonic())
        return TOKEN

    with ServerProcess(tmp_path, *tokens) as server, milepost.Client(server.start().url, token=TOKEN) as client:
        here = replace(place, url=server.url)
        with pytest.raises(Fenced), here.lead(token=token) as job:  # noqa: PT012
            query = here.start(job, job.files(here.output), "aggregation", forever=True)
            query.processAllAvailable()
            secret = str(place.spark.conf.get(CREDENTIAL))
            zombie = here.checkpoint()
            zombie.write_new(f"{here.location}/mine", b"of epoch 1")
            succeed(client, place.name)
            here.add_input(3)
            finish(job, query)
        with pytest.raises(Py4JJavaError, match=r"AccessControlException.* epoch"):
            zombie.write_new(f"{here.location}/late", b"of epoch 1 too")
        assert zombie.read(f"{here.location}/mine") == b"of epoch 1"
        assert place.spark.conf.get(CREDENTIAL, None) is None
        assert len(called) > 3
        assert len(published_batches(place.spark, server.url, place.name, token=token)) == 2
        assert read_published(place.spark, server.url, place.name, token=token).count() > 0
        with pytest.raises(AccessDenied), here.lead():
            pass
        told = caplog.text + server.logged() + reported(place.spark)
        assert place.name in server.logged()
        assert "X-Milepost-" in reported(place.spark)
        assert secret not in told
        assert TOKEN not in told


def reported(spark: SparkSession) -> str:
    """What Spark's UI and event log show of the settings under which it ran queries."""
    executions: Any = spark._jsparkSession.sharedState().statusStore().executionsList()
    return "\n".join(str(executions.apply(index).modifiedConfigs()) for index in range(executions.size()))


def test_jobs_of_two_services_in_one_session_have_a_credential_each_or_none(
    place: Place, tmp_path: Path, tokens: tuple[str, ...]
) -> None:
    hidden = place.spark.conf.get(REDACTION)
    with ServerProcess(tmp_path, *tokens) as server:
        guarded = replace(place, url=server.start().url, name=f"{place.name}-2")
        with guarded.lead(token=TOKEN) as first, place.lead() as second:
            assert place.spark.conf.get(CREDENTIAL, None) is None
            assert first.checkpointLocation == guarded.location
            assert place.spark.conf.get(CREDENTIAL, None) is not None
            assert re.escape(CREDENTIAL) in str(place.spark.conf.get(REDACTION))
            assert second.checkpointLocation == place.location
            assert place.spark.conf.get(CREDENTIAL, None) is None
            finish(second, place.start(second, second.exactlyOnce(lambda *_: None)))
    assert place.spark.conf.get(REDACTION) == hidden


def test_the_wait_bounds_the_search_for_a_service(spark: SparkSession, name: str) -> None:
    began = time.monotonic()
    with (
        pytest.raises(ConnectionFailed),
        milepost.spark.lead(spark, f"http://{Port().address}", name, wait=1.0, timeout=300.0),
    ):
        pass
    assert time.monotonic() - began < 100.0

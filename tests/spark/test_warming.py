"""What a driver reads while it stands by, so that its JVM is ready when the epoch is granted."""

from __future__ import annotations

import logging
import threading

import httpx
import pytest

import milepost
from milepost.spark import warming
from milepost.spark.warming import warm_up
from testbed.ports import Port
from tests.spark.jobs import Place, wait_until
from tests.wire.webhdfs.hadoop import Tree

pytestmark = pytest.mark.spark


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "milepost.spark.warming")
    return caplog


def test_a_standby_reads_large_files_of_the_state_and_leads_when_its_turn_comes(
    place: Place, said: pytest.LogCaptureFixture
) -> None:
    with (
        milepost.Client(place.url) as client,
        client.session("the leader", ttl=60) as session,
        httpx.Client(base_url=place.url, timeout=60.0) as http,
    ):
        ahead = session.store(place.name)
        tree = Tree(http, place.name, ahead.campaign().epoch)
        for path, size in (("offsets/0", 5), ("state/0/0/1.delta", 100), ("state/0/0/2.zip", 2 * 1024 * 1024)):
            assert tree.create(f"checkpoint/{path}", b"x" * size).status_code == 201

        def leave() -> None:
            try:
                wait_until(lambda: "bytes of the state" in said.text)
            finally:
                ahead.resign()

        leaving = threading.Thread(target=leave)
        leaving.start()
        with place.lead() as job:
            assert job.recovery.epoch == 2
        leaving.join()
    assert f"read {2 * 1024 * 1024} bytes of the state of {place.name} while standing by" in said.text


def test_a_service_that_is_away_is_let_alone(place: Place, said: pytest.LogCaptureFixture) -> None:
    nobody = Port()
    with milepost.Client(f"http://{nobody.address}") as client:
        warm_up(place.spark, place.name, client)
        wait_until(lambda: "cannot be read while standing by" in said.text)


def test_a_program_that_stops_spark_meanwhile_gets_no_error_for_it(
    place: Place, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PySpark leaves the session; to stop the real one would cost the other tests theirs."""
    monkeypatch.setattr(place.spark.sparkContext, "_jsc", None)
    warming._read(place.spark, [place.url], place.name)
    assert "while standing by" in said.text


def test_a_standby_plans_queries_that_nobody_sees(place: Place, said: pytest.LogCaptureFixture) -> None:
    spark = place.spark
    active = spark._jvm.SparkSession.active  # type: ignore[union-attr]
    jobs, session = spark.sparkContext.statusTracker().getJobIdsForGroup, active().sessionUUID()
    before = set(jobs())
    warming._plan(spark)
    assert "planned queries" in said.text
    assert set(jobs()) == before
    assert active().sessionUUID() == session


def test_the_default_catalog_is_not_constructed(place: Place, said: pytest.LogCaptureFixture) -> None:
    place.spark.conf.set("spark.sql.defaultCatalog", "theirs")
    place.spark.conf.set("spark.sql.catalog.theirs", "there.is.no.such.Catalog")
    try:
        warming._plan(place.spark)
        assert said.text == ""
    finally:
        place.spark.conf.unset("spark.sql.defaultCatalog")
        place.spark.conf.unset("spark.sql.catalog.theirs")


def test_a_query_that_cannot_be_planned_is_let_alone(
    place: Place, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "_PLANNED", ("SELECT of_nothing",))
    warming._plan(place.spark)
    assert "no queries can be planned while standing by" in said.text

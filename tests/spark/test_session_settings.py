"""The settings of an epoch: in the session for as long as its job is led, and each query under those of its own job."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError

from milepost.core.checkpoint_location import HEADER, NAME_SERVICES, checkpoint_location
from milepost.errors import UnsafeQuery
from milepost.spark import published_batches
from milepost.spark.session_settings import in_place
from tests.spark.jobs import Place, finish, wait_until
from tests.spark.trials.queries import KINDS, read_input, write_input

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_SOURCES = 20
_RETRIES = "dfs.http.client.retry.policy.spec"


def logs(place: Place) -> dict[str, list[str]]:
    """What Spark has logged in the job's checkpoint."""
    return {log: place.checkpoint().names(f"{place.location}/{log}") for log in ("offsets", "commits", "sources/0")}


def test_they_are_there_while_the_job_is_led_and_what_was_there_before_comes_back(place: Place) -> None:
    place.spark.conf.set(_RETRIES, "1,2")
    try:
        for epoch in (1, 2):
            with place.lead() as job:
                settings = checkpoint_location([place.url], place.name, epoch).settings
                assert {key: place.spark.conf.get(key) for key in settings} == dict(settings)
                place.spark.conf.unset(HEADER)
                assert job.checkpointLocation == place.location
                assert place.spark.conf.get(HEADER) == settings[HEADER]
            with pytest.raises(UnsafeQuery, match="block is left"):
                assert job.checkpointLocation
            left = {key: place.spark.conf.get(key, None) for key in settings}
            assert left == {**dict.fromkeys(settings), _RETRIES: "1,2"}
    finally:
        place.spark.conf.unset(_RETRIES)


def test_other_name_services_stay(spark: SparkSession) -> None:
    location = checkpoint_location(["http://127.0.0.1:1", "http://127.0.0.1:2"], "flights", 1)
    spark.conf.set(NAME_SERVICES, "prod,backup")
    try:
        with in_place(spark) as settings:
            for _ in range(2):
                settings.put(location.settings, location.fence)
                assert spark.conf.get(NAME_SERVICES) == "prod,backup,milepost"
        assert spark.conf.get(NAME_SERVICES) == "prod,backup"
    finally:
        spark.conf.unset(NAME_SERVICES)


def test_two_jobs_of_one_session_do_not_mix_whichever_query_starts_first(place: Place) -> None:
    other = replace(place, name=f"{place.name}-2", directory=place.directory / "two")
    write_input(other.input, 3)
    with other.lead() as second:
        with place.lead() as first:
            queries = [
                (job, at.start(job, job.files(at.output), "aggregation"))
                for at, job in ((other, second), (place, first))
            ]
            for job, query in queries:
                finish(job, query)
        assert place.spark.conf.get(HEADER) == f"X-Milepost-{other.name}-1"
    assert place.spark.conf.get(HEADER, None) is None
    for at, files in ((place, 2), (other, 3)):
        published = published_batches(at.spark, at.url, at.name)
        assert len(published) == len(KINDS["aggregation"].expected(files))


def test_a_query_that_still_prepares_its_sources_is_waited_for(place: Place) -> None:
    """Spark prepares them one by one once `start` has returned, each under what the session has set by then."""
    other = replace(place, name=f"{place.name}-2", directory=place.directory / "two")
    several = [read_input(place.spark, str(place.input)) for _ in range(_SOURCES)]
    frame = reduce(lambda one, another: one.union(another), several)
    with place.lead() as first:
        writer = frame.writeStream.option("checkpointLocation", first.checkpointLocation)
        query = writer.foreachBatch(first.files(place.output)).trigger(availableNow=True).start()
        with other.lead() as second:
            assert second.epoch == 1
            finish(first, query)
    for source in range(_SOURCES):
        assert place.checkpoint().names(f"{place.location}/sources/{source}")


def test_a_query_under_the_settings_of_another_job_is_refused_by_the_service(place: Place) -> None:
    """Its output, in its own tree, is looked at under its own settings all the same."""
    other = replace(place, name=f"{place.name}-2")
    with place.lead() as job, other.lead() as another:
        location = job.checkpointLocation
        assert another.checkpointLocation == other.location
        function = job.files(location.replace("/checkpoint", "/output"))
        with pytest.raises(Py4JJavaError, match=f"made under epoch 1 of '{other.name}'"):
            place.start(job, function, checkpointLocation=location)


def test_a_query_of_an_older_epoch_in_the_same_application_ends_at_its_next_write(place: Place) -> None:
    """It runs in another session, where no `lead` sees it, and has the settings that it was started with."""
    session = place.spark.newSession()
    for key, value in checkpoint_location([place.url], place.name, 1).settings.items():
        session.conf.set(key, value)
    with place.lead():
        writer = read_input(session, str(place.input)).writeStream.option("checkpointLocation", place.location)
        query = writer.foreachBatch(lambda *_: None).start()
        query.processAllAvailable()
    assert query.isActive
    with place.lead():
        before = logs(place)
        assert before["commits"] == ["0", "1"]
        place.add_input(3)
        wait_until(lambda: not query.isActive)
        assert str(query.exception()).startswith("epoch 1 was given, the current one of")
        assert logs(place) == before

"""A driver's probe notes batches in order, and lets the first driver that comes to a halt stand still, no other."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from demo.spark.probe import Probe
from demo.spark.settings import AFTER_PUBLISHING, BEFORE_PUBLISHING, DriverSettings, Halt
from demo.timeline import BEGAN, FAILED, FENCED, FINISHED, HALTED, PUBLISHED, STANDBY, EventLog
from milepost.errors import Fenced, SessionExpired
from milepost.wire import Code

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_FRAME = cast("DataFrame", None)  # the functions under test hand it on, and look at nothing of it


@pytest.fixture
def settings(tmp_path: Path) -> DriverSettings:
    halts = (Halt(BEFORE_PUBLISHING, 1), Halt(AFTER_PUBLISHING, 2))
    events, begin = str(tmp_path / "events"), str(tmp_path / "begin")
    return DriverSettings("A", "in", "out", events, begin, "-Xmx1m", halts)


def noted(settings: DriverSettings) -> list[tuple[str, str, int | None]]:
    return [(event.driver, event.what, event.batch) for event in EventLog(Path(settings.events)).events()]


def wait_until_noted(settings: DriverSettings, what: str, batch: int | None = None) -> None:
    end = time.monotonic() + 30
    while (settings.name, what, batch) not in noted(settings):
        assert time.monotonic() < end, f"{what} is not noted: {noted(settings)}"
        time.sleep(0.01)


def test_settings_come_out_of_the_command_line_as_they_went_in(settings: DriverSettings) -> None:
    given = replace(settings, services=("http://127.0.0.1:1", "http://127.0.0.1:2"), job="j", ttl=2.5)
    read = DriverSettings.from_json(given.to_json())
    assert replace(read, services=tuple(read.services)) == given


def test_a_batch_without_a_halt_is_noted_around_its_function(settings: DriverSettings) -> None:
    called: list[tuple[object, int]] = []

    def publish(frame: DataFrame, batch: int) -> None:
        assert noted(settings) == [("A", BEGAN, 0)]
        called.append((frame, batch))

    Probe(settings).around(publish)(NO_FRAME, 0)
    assert called == [(None, 0)]
    assert noted(settings) == [("A", BEGAN, 0), ("A", PUBLISHED, 0)]


@pytest.mark.parametrize(("batch", "published_first"), [(1, False), (2, True)])
def test_the_first_driver_stands_still_until_it_may_go_on_and_the_next_passes(
    settings: DriverSettings, batch: int, published_first: bool
) -> None:
    called: list[str] = []
    driver = threading.Thread(
        target=Probe(settings).around(lambda _frame, _batch: called.append("A")), args=(NO_FRAME, batch), daemon=True
    )
    driver.start()
    wait_until_noted(settings, HALTED, batch)
    assert called == (["A"] if published_first else [])

    following = replace(settings, name="B")
    Probe(following).around(lambda _frame, _batch: called.append("B"))(NO_FRAME, batch)
    assert ("B", PUBLISHED, batch) in noted(settings)
    assert driver.is_alive()

    (halt,) = (halt for halt in settings.halts if halt.batch == batch)
    Path(settings.events).with_name(f"{halt.name}.over").touch()
    driver.join(30)
    assert not driver.is_alive()
    assert sorted(called) == ["A", "B"]


def test_a_driver_stands_by_until_it_is_told_to_begin(settings: DriverSettings) -> None:
    driver = threading.Thread(target=Probe(settings).stand_by, daemon=True)
    driver.start()
    wait_until_noted(settings, STANDBY)
    assert driver.is_alive()
    Path(settings.begin).touch()
    driver.join(30)
    assert not driver.is_alive()


@pytest.mark.parametrize(
    ("error", "what", "detail"),
    [
        (Fenced(Code.FENCED, "epoch 2 leads"), FENCED, "Fenced"),
        (SessionExpired(Code.SESSION_EXPIRED, "late"), FENCED, "SessionExpired"),
        (RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: [LOG] twice"), FAILED, "[LOG] twice"),
        (RuntimeError("plain words"), FAILED, "plain words"),
    ],
)
def test_how_a_driver_ended_is_noted_and_raised(
    settings: DriverSettings, error: Exception, what: str, detail: str
) -> None:
    with pytest.raises(type(error)), Probe(settings).noting_the_end():
        raise error
    (event,) = EventLog(Path(settings.events)).events()
    assert (event.what, event.detail) == (what, detail)


def test_a_driver_that_ends_by_itself_has_finished(settings: DriverSettings) -> None:
    with Probe(settings).noting_the_end():
        pass
    assert noted(settings) == [("A", FINISHED, None)]

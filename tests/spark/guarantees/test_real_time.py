"""Real-time mode with `milepost.spark.lead`: Kafka as source; Kafka, `foreach` and a query with state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testbed.server import ServerProcess
from tests.spark.guarantees.gate import Gate
from tests.spark.guarantees.outputs import HELD, KEYS, Outputs
from tests.spark.guarantees.real_time import ENDS, SINKS, RealTime, prefixes

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def trial(
    begin: Callable[[str], tuple[str, Outputs]],
    guarded: Gate,
    service: ServerProcess,
    java_options: str,
    extra_jars: str,
) -> RealTime:
    """The trial, once for all cells."""
    real_time = RealTime(*begin("realtime"), guarded, service.url, java_options, extra_jars)
    real_time.go()
    return real_time


@pytest.mark.parametrize("sink", ["kafka", "foreach"])
def test_sinks_have_twice_what_came_after_the_last_commit_and_nothing_else(trial: RealTime, sink: str) -> None:
    """Each row is there once for each driver that read it before another one had committed it."""
    found = trial.outputs.kafka() if sink == "kafka" else trial.outputs.lines("foreach")
    killed, frozen = trial.killed[sink], trial.frozen[sink]
    assert ENDS[0] <= killed < ENDS[1] <= frozen <= HELD, "it was not interrupted where it should have been"
    assert set(found) == set(range(ENDS[3]))
    again = [value for value, times in found.items() for _ in range(times - 1)]
    # What is behind the row at which the second driver stood may have reached it or not, before it was told.
    sure = [*range(killed, ENDS[1]), *range(frozen, HELD + 1)]
    print(f"{sink}: committed {killed} at the kill and {frozen} at the freeze; {len(again)} of {ENDS[3]} rows twice")
    assert sorted(value for value in again if value <= HELD) == sure
    assert len(again) == len(set(again))


def test_state_has_each_row_once(trial: RealTime) -> None:
    """Each sum that was ever put out is one of the rows so far, also with the driver that came too late."""
    found = set(trial.outputs.topics.read(f"{trial.outputs.topic}-sums"))
    right = {str(key): prefixes(range(key, ENDS[3], KEYS)) for key in range(KEYS)}
    assert found <= {(key, text) for key, texts in right.items() for text in texts}
    assert found >= {(key, texts[-1]) for key, texts in right.items()}


@pytest.mark.parametrize("sink", SINKS)
def test_the_driver_that_came_too_late_was_told_so(trial: RealTime, sink: str) -> None:
    assert trial.refused(sink), trial.ends

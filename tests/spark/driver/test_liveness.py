"""The probe of a JVM, against a gateway that is made up: one that stands still or goes away at a given moment."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import StreamingQueryException

from milepost.errors import JvmLost
from milepost.spark.driver import driver as driver_module
from milepost.spark.driver import liveness
from milepost.spark.driver.driver import Driver
from milepost.spark.driver.liveness import JvmProbe

_DEADLINE_SECONDS = 30.0


class Gateway:
    """Takes one connection at a time; answers when it is told to."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(_DEADLINE_SECONDS)
        self._connection: socket.socket | None = None
        self.parameters = SimpleNamespace(
            address="127.0.0.1", port=self._listening.getsockname()[1], auth_token="secret", ssl_context=None
        )

    def read(self, ends_with: bytes) -> bytes:
        """What was asked, up to and with these bytes."""
        if self._connection is None:
            self._connection = self._listening.accept()[0]
            self._connection.settimeout(_DEADLINE_SECONDS)
        received = b""
        while not received.endswith(ends_with):
            received += self._connection.recv(4096)
        return received

    def say(self, text: bytes) -> None:
        assert self._connection is not None
        self._connection.sendall(text)

    def close(self) -> None:
        self._listening.close()
        if self._connection is not None:
            self._connection.close()


class Unreachable:
    """The client of a gateway that is gone."""

    converters = None
    is_connected = True

    def send_command(self, *_: object) -> str:
        raise Py4JNetworkError("Answer from Java side is empty")


def spark_of(gateway: Gateway, is_stopped: Callable[[], bool]) -> Any:
    """A session whose JVM is behind this gateway, and says so of its SparkContext."""
    java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=is_stopped))
    behind = SimpleNamespace(gateway_parameters=gateway.parameters)
    return SimpleNamespace(sparkContext=SimpleNamespace(_gateway=behind, _jsc=java))


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    yield gateway
    gateway.close()


@pytest.fixture
def probe(gateway: Gateway) -> Iterator[JvmProbe]:
    probe = JvmProbe(SimpleNamespace(gateway_parameters=gateway.parameters), 1.0)
    yield probe
    probe.close()


def looked(probe: JvmProbe, until: Callable[[], bool], seconds: float = 0.25) -> None:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not until():
        assert time.monotonic() < deadline
        probe.look(seconds)
        time.sleep(0.01)


def test_one_question_is_open_until_it_is_answered(gateway: Gateway, probe: JvmProbe) -> None:
    probe.look(0.25)
    assert gateway.read(b"e\n").startswith(b"A\nsecret\nc\nz:java.lang.System\n")
    for _ in range(8):
        probe.look(0.25)
    assert probe.silent == 2.0
    gateway.say(b"!yv\n!yL")
    probe.look(0.25)
    assert probe.silent > 2.0
    gateway.say(b"42\n")
    looked(probe, lambda: probe.silent == 0)
    looked(probe, lambda: probe.silent > 0)
    assert gateway.read(b"e\n").startswith(b"c\n"), "the connection stays, and says whose it is once"
    assert not probe.gone


def test_what_fails_on_this_side_does_not_say_that_nobody_listens(
    probe: JvmProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process without a file descriptor left for a moment, made up, may not kill its JVM for it."""

    def refused(*_: Any) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "create_connection", refused)
        for _ in range(8):
            probe.look(0.25)
    assert not probe.gone
    assert probe.silent == 2.0


def test_nobody_listening_is_the_end_of_it(gateway: Gateway, probe: JvmProbe) -> None:
    probe.look(0.25)
    gateway.read(b"e\n")
    gateway.close()
    looked(probe, lambda: probe.gone)


def test_one_that_refuses_to_be_asked_is_not_watched(
    gateway: Gateway, probe: JvmProbe, caplog: pytest.LogCaptureFixture
) -> None:
    probe.look(0.25)
    gateway.read(b"e\n")
    gateway.say(b"!xspy\n")
    looked(probe, lambda: "not watched" in caplog.text)
    gateway.close()
    for _ in range(100):
        probe.look(5.0)
    assert not probe.gone
    assert probe.silent == 0


def test_what_only_follows_from_the_end_of_the_jvm_is_reported_as_that(gateway: Gateway) -> None:
    """Any call of the program's own fails then; one that fails while the JVM lives is none of ours."""
    spark = spark_of(gateway, lambda: False)
    with pytest.raises(ConnectionRefusedError), Driver(spark).raising_cause():
        raise ConnectionRefusedError("somebody else")
    gateway.close()
    with pytest.raises(JvmLost, match="nobody there"), Driver(spark).raising_cause():
        raise ConnectionRefusedError("nobody there")


@pytest.mark.parametrize(
    "error",
    [
        StreamingQueryException("dagScheduler is null"),
        Py4JError("py4j does not exist in the JVM"),
        Py4JJavaError("", SimpleNamespace(_target_id="o1", _gateway_client=Unreachable())),
    ],
    ids=["query", "lookup", "java"],
)
def test_what_fails_while_the_jvm_shuts_down_is_reported_as_its_end(gateway: Gateway, error: Exception) -> None:
    """Its shutdown stops the SparkContext first, and queries fail by that."""

    def stopped() -> bool:
        gateway.close()
        return True

    with pytest.raises(JvmLost, match="JVM has ended"), Driver(spark_of(gateway, stopped)).raising_cause():
        raise error


def test_a_jvm_that_hangs_holds_up_no_error(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "_CONNECT_SECONDS", 0.01)
    hanging = threading.Event()
    with pytest.raises(StreamingQueryException), Driver(spark_of(gateway, hanging.wait)).raising_cause():
        raise StreamingQueryException("something else")
    hanging.set()


def test_a_program_may_stop_its_spark_itself(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "_END_SECONDS", 0.01)
    with pytest.raises(StreamingQueryException), Driver(spark_of(gateway, lambda: True)).raising_cause():
        raise StreamingQueryException("it was stopped")
    spark = spark_of(gateway, lambda: False)
    spark.sparkContext._jsc = None  # as spark.stop() leaves it
    assert liveness.context_is_stopped(spark)


def test_a_step_that_fails_holds_up_none_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a JVM that stands still would wait for ever."""
    taken: list[str] = []

    class Failing:
        def cancel(self) -> None:
            taken.append("withdraw")
            raise RuntimeError("can't start new thread")

        def fail(self, _error: JvmLost) -> None:
            taken.append("give up")

        def release(self) -> None:
            taken.append("release")

    spark: Any = SimpleNamespace()
    monkeypatch.setattr(driver_module, "end_jvm", lambda _: taken.append("end the JVM"))
    driver = Driver(spark)
    failing: Any = Failing()
    driver.lead(failing)
    with pytest.raises(RuntimeError):
        driver.fail(failing.cancel, JvmLost("it stands still"))
    assert taken == ["give up", "withdraw", "end the JVM", "release"]


def test_a_driver_that_gave_up_leads_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would stop a job that it began to lead just then."""
    nothing: Any = SimpleNamespace()
    monkeypatch.setattr(driver_module, "end_jvm", lambda _: None)
    driver = Driver(nothing)
    driver.fail(lambda: None, gave_up := JvmLost("it stands still"))
    with pytest.raises(JvmLost) as raised:
        driver.lead(nothing)
    assert raised.value is gave_up
    assert driver.batch() is None


def test_a_signal_that_finds_no_jvm_any_more_is_no_error_of_its_thread(caplog: pytest.LogCaptureFixture) -> None:
    class Gone:
        def stop(self) -> None:
            raise ConnectionRefusedError("nobody there")

    spark: Any = SimpleNamespace()
    driver = Driver(spark)
    gone: Any = Gone()
    driver.lead(gone)
    driver.stop()
    assert "Spark does not answer any more" in caplog.text

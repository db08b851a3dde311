"""Timers over each kind of table. docs/state.md names the test of each method.

What Beam's ``InMemoryTimerInternalsTest`` and ``TimerInternalsTest`` hold is held here.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from milepost.state.coders import CoderError, JsonCoder, Utf8Coder
from milepost.state.dialects.beam import (
    TIMESTAMP_MIN_VALUE,
    GlobalWindow,
    GlobalWindowCoder,
    StateNamespaces,
    StateTable,
    TimeDomain,
    TimerData,
    TimerDataCoder,
    TimerInternals,
    TimerInternalsFactory,
)
from milepost.state.errors import InvalidUse, NotDeterministic
from tests.client.state.dialects.beam.conftest import NAMESPACE_1, NAMESPACE_2, WINDOWS, at, window

EVENT, PROCESSING, SYNCHRONIZED = TimeDomain
DOMAINS: dict[TimeDomain, tuple[str, str, str]] = {
    EVENT: ("advance_input_watermark", "remove_next_event_timer", "current_input_watermark_time"),
    PROCESSING: ("advance_processing_time", "remove_next_processing_timer", "current_processing_time"),
    SYNCHRONIZED: (
        "advance_synchronized_processing_time",
        "remove_next_synchronized_processing_timer",
        "current_synchronized_processing_time",
    ),
}


@pytest.fixture
def factory(table: StateTable) -> TimerInternalsFactory[str]:
    return TimerInternalsFactory(table, Utf8Coder(), WINDOWS)


@pytest.fixture
def timers(factory: TimerInternalsFactory[str]) -> TimerInternals:
    return factory.timer_internals_for_key("key")


@pytest.fixture(params=TimeDomain, ids=lambda domain: domain.name)
def domain(request: pytest.FixtureRequest) -> TimeDomain:
    found: TimeDomain = request.param
    return found


def timer(id: str, seconds: float, domain: TimeDomain = EVENT, **others: Any) -> TimerData:
    return TimerData(**{
        "timer_id": id,
        "namespace": NAMESPACE_1,
        "timestamp": at(seconds),
        "domain": domain,
        "output_timestamp": at(seconds),
        **others,
    })  # fmt: skip


def methods(timers: Any, domain: TimeDomain) -> tuple[Callable[[float], None], Callable[[], Any]]:
    """Return what advances the time of a domain to a number of seconds, and what removes its next timer."""
    advance, remove, _ = DOMAINS[domain]
    return lambda seconds: getattr(timers, advance)(at(seconds)), getattr(timers, remove)


def test_firing(timers: TimerInternals, domain: TimeDomain) -> None:
    advance, remove = methods(timers, domain)
    one, two = timer("id1", 19, domain), timer("id2", 29, domain)
    timers.set_timer(two)
    timers.set_timer(one)
    assert remove() is None
    advance(19)
    assert remove() is None, "a timer fires once its time has passed"
    advance(20)
    assert (remove(), remove()) == (one, None)
    advance(21)
    assert remove() is None
    timers.set_timer(one)
    assert (remove(), remove()) == (one, None)
    timers.set_timer(one)
    advance(30)
    assert (remove(), remove(), remove()) == (one, two, None)


def test_domains_are_apart_and_in_order(timers: TimerInternals) -> None:
    """Beam's ``testTimerOrdering`` and ``testDeduplicate``: the same timers, set twice and in any order."""
    for seconds in (29, 19, 29, 19):
        for domain in (PROCESSING, EVENT, SYNCHRONIZED):
            timers.set_timer(TimerData.of(NAMESPACE_1, at(seconds), domain))
    for domain in TimeDomain:
        advance, remove = methods(timers, domain)
        assert remove() is None
        advance(30)
        assert [remove(), remove()] == [TimerData.of(NAMESPACE_1, at(seconds), domain) for seconds in (19, 29)]
        assert remove() is None


def test_set_timer_replaces_the_one_with_its_ids(timers: TimerInternals, domain: TimeDomain) -> None:
    advance, remove = methods(timers, domain)
    timers.set_timer(timer("id", 13, domain))
    timers.set_timer(timer("id", 42, domain))
    family = timer("id", 14, domain, timer_family_id="family")
    elsewhere = timer("id", 15, domain, namespace=NAMESPACE_2)
    timers.set_timer(family)
    timers.set_timer(elsewhere)
    advance(40)
    assert (remove(), remove(), remove()) == (family, elsewhere, None)
    later = timer("id", 42, domain, output_timestamp=at(7))
    timers.set_timer(later)
    advance(43)
    assert (remove(), remove()) == (later, None)


def test_set_timer_for_another_domain(timers: TimerInternals) -> None:
    timers.set_timer(timer("id", 13))
    with pytest.raises(InvalidUse, match="'id' is set already, for EVENT_TIME"):
        timers.set_timer(timer("id", 13, PROCESSING))
    timers.delete_timer(NAMESPACE_1, "id")
    timers.set_timer(timer("id", 13, PROCESSING))
    timers.advance_processing_time(at(14))
    assert timers.remove_next_processing_timer() == timer("id", 13, PROCESSING)


def test_delete_timer(timers: TimerInternals, domain: TimeDomain) -> None:
    advance, remove = methods(timers, domain)
    kept = timer("id2", 42, domain)
    for one in (timer("id1", 42, domain), kept, timer("id1", 41, domain, timer_family_id="family")):
        timers.set_timer(one)
    timers.delete_timer(NAMESPACE_2, "id1")
    timers.delete_timer(NAMESPACE_1, "id1")
    timers.delete_timer(NAMESPACE_1, "id1")
    timers.delete_timer(NAMESPACE_1, "id1", "family")
    advance(43)
    assert (remove(), remove()) == (kept, None)


def test_timers_that_are_set_and_deleted_while_others_fire(timers: TimerInternals, domain: TimeDomain) -> None:
    advance, remove = methods(timers, domain)
    for seconds in range(5):
        timers.set_timer(timer(str(seconds), seconds, domain))
    advance(10)
    assert remove() == timer("0", 0, domain)
    timers.delete_timer(NAMESPACE_1, "1")
    for id, when in (("3", 9), ("early", -1), ("between", 2.5), ("gone", 2.1), ("late", 10), ("0", 3)):
        timers.set_timer(timer(id, when, domain))
    timers.delete_timer(NAMESPACE_1, "gone")
    assert remove() == timer("early", -1, domain)
    timers.set_timer(timer("early", 3.5, domain))
    fired = []
    while (found := remove()) is not None:
        fired.append(found.timer_id)
    assert fired == ["2", "between", "0", "early", "4", "3"]
    assert timers.next_timer(domain) == at(10)


def test_timers_that_set_themselves_again(timers: TimerInternals) -> None:
    timers.set_timer(timer("loop", 0))
    timers.advance_input_watermark(at(100))
    count = 0
    while (found := timers.remove_next_event_timer()) is not None:
        count += 1
        timers.set_timer(replace(found, timestamp=at(count), output_timestamp=at(count)))
    assert (count, timers.next_timer(EVENT)) == (100, at(100))


def test_next_timer(timers: TimerInternals, factory: TimerInternalsFactory[str], domain: TimeDomain) -> None:
    assert timers.next_timer(domain) is None
    factory.timer_internals_for_key("other").set_timer(timer("id", 1, domain))
    for seconds in (29, 19):
        timers.set_timer(timer(str(seconds), seconds, domain))
    assert (timers.next_timer(domain), factory.next_timer(domain)) == (at(19), at(1))
    timers.delete_timer(NAMESPACE_1, "19")
    assert timers.next_timer(domain) == at(29)
    assert all(timers.next_timer(other) is None for other in TimeDomain if other is not domain)


def test_timers_of_all_keys(factory: TimerInternalsFactory[str], domain: TimeDomain) -> None:
    """The factory gives the timers of all keys in the order of their time, and a key's queue gives its own."""
    advance, remove = methods(factory, domain)
    keys = ("b", "a", "", "a\0")
    for number, key in enumerate(keys):
        for seconds in (number, number + 10, 5):
            factory.timer_internals_for_key(key).set_timer(timer(f"t{seconds}", seconds, domain))
    advance(12)
    assert remove() == ("b", timer("t0", 0, domain))
    _, remove_a = methods(factory.timer_internals_for_key("a"), domain)
    assert [remove_a() for _ in range(4)] == [timer(f"t{seconds}", seconds, domain) for seconds in (1, 5, 11)] + [None]
    factory.timer_internals_for_key("new").set_timer(timer("new", 3.5, domain))
    found = []
    while (one := remove()) is not None:
        found.append((one[0], one[1].timer_id))
    assert found == [("", "t2"), ("a\0", "t3"), ("new", "new"), ("", "t5"), ("a\0", "t5"), ("b", "t5"), ("b", "t10")]
    assert factory.timer_internals_for_key("a") is factory.timer_internals_for_key("a")


def test_times(factory: TimerInternalsFactory[str], timers: TimerInternals, domain: TimeDomain) -> None:
    """Times are those of all keys, and never go back."""
    advance, _ = methods(timers, domain)
    current = getattr(factory, DOMAINS[domain][2])
    assert current() == TIMESTAMP_MIN_VALUE
    advance(5)
    advance(5)
    advance(6)
    assert current() == at(6) == getattr(timers, DOMAINS[domain][2])()
    with pytest.raises(InvalidUse, match="cannot go back"):
        advance(5)
    with pytest.raises(CoderError, match="time zone"):
        getattr(timers, DOMAINS[domain][0])(datetime(2100, 1, 1))
    assert current() == at(6)
    assert [getattr(factory, names[2])() for other, names in DOMAINS.items() if other is not domain] == [
        TIMESTAMP_MIN_VALUE
    ] * 2


def test_output_watermark(timers: TimerInternals) -> None:
    assert timers.current_output_watermark_time() is None
    timers.advance_input_watermark(at(10))
    timers.advance_output_watermark(at(7))
    assert timers.current_output_watermark_time() == at(7)
    timers.advance_output_watermark(at(12))
    assert timers.current_output_watermark_time() == at(10), "it is never ahead of the input watermark"
    timers.advance_output_watermark(at(12))
    with pytest.raises(InvalidUse, match="output watermark cannot go back"):
        timers.advance_output_watermark(at(9))
    with pytest.raises(CoderError, match="time zone"):
        timers.advance_output_watermark(datetime(2100, 1, 1))


def test_timer_data_sort_by_time_and_then_by_the_rest() -> None:
    """Beam's ``testCompareTo``; the coder's bytes sort the same."""
    namespaces = [StateNamespaces.global_namespace(), *(StateNamespaces.window(WINDOWS, window(n, 10)) for n in (0, 1))]
    ordered = [
        timer("id", -1, SYNCHRONIZED),
        timer("id", 1, output_timestamp=at(0)),
        timer("a", 1),
        timer("a\0", 1, namespace=namespaces[0]),
        timer("b", 1, namespace=namespaces[0]),
        timer("b", 1, namespace=namespaces[1]),
        timer("b", 1, namespace=namespaces[2]),
        timer("b", 1, timer_family_id="a", namespace=namespaces[0]),
        timer("a", 1, PROCESSING),
        timer("a", 1, SYNCHRONIZED),
        timer("a", 2),
    ]
    assert sorted([*ordered[1::2], *ordered[::2]]) == ordered
    encoded = [TimerDataCoder(WINDOWS).encode(one) for one in ordered]
    assert sorted(encoded) == encoded
    assert [TimerDataCoder(WINDOWS).decode(data) for data in encoded] == ordered


def test_timer_data_coder() -> None:
    coder = TimerDataCoder(GlobalWindowCoder())
    for namespace in (
        StateNamespaces.global_namespace(),
        StateNamespaces.window(GlobalWindowCoder(), GlobalWindow()),
        StateNamespaces.window_and_trigger(GlobalWindowCoder(), GlobalWindow(), 3),
    ):
        one = TimerData("arbitrary-id", namespace, at(0), PROCESSING, at(-1), "family")
        assert pickle.loads(pickle.dumps(coder)).decode(coder.encode(one)) == one
    data = coder.encode(one)
    assert data.hex() == (
        "80000000000000007ffffffffff0bdc0016172626974726172792d6964000166616d696c7900010100010100000003"
    )
    for damaged in (b"", data[:-1], data + b"x", data[:16] + b"\3" + data[17:], data[:17] + b"\xff" + data[18:]):
        with pytest.raises(CoderError):
            coder.decode(damaged)


def test_what_is_refused(table: StateTable, timers: TimerInternals, factory: TimerInternalsFactory[str]) -> None:
    with pytest.raises(CoderError, match="time zone"):
        timers.set_timer(timer("id", 1, timestamp=datetime(2000, 1, 1)))
    with pytest.raises(CoderError, match="time zone"):
        TimerData.of(NAMESPACE_1, datetime(2000, 1, 1), EVENT)
    with pytest.raises(CoderError):
        timers.set_timer(timer("id", 1, namespace=StateNamespaces.window(Utf8Coder(), "w")))
    with pytest.raises(InvalidUse, match="surrogate"):
        timers.set_timer(timer("\ud800", 1))
    with pytest.raises(CoderError):
        factory.timer_internals_for_key(5)  # type: ignore[arg-type]
    with pytest.raises(NotDeterministic, match="keys of state"):
        TimerInternalsFactory(table, JsonCoder(), WINDOWS)
    with pytest.raises(NotDeterministic, match="windows of timers"):
        TimerInternalsFactory(table, Utf8Coder(), JsonCoder())
    assert all(factory.next_timer(domain) is None for domain in TimeDomain)

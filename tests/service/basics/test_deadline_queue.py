"""What is due is found, however often it was put off, and no more is looked at in a step than may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from milepost_server.basics.deadline_queue import DeadlineQueue

ACTS = st.one_of(
    st.tuples(st.just("set"), st.sampled_from("abcd"), st.integers(0, 9)),
    st.tuples(st.just("discard"), st.sampled_from("abcd"), st.just(0)),
    st.tuples(st.just("take"), st.just(""), st.integers(0, 9)),
)


@given(st.lists(ACTS, max_size=40))
def test_what_is_taken_is_what_a_scan_would_find(acts: list[tuple[str, str, int]]) -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    plain: dict[str, float] = {}
    for act, key, at in acts:
        if act == "set":
            queue.set(key, at)
            plain[key] = at
        elif act == "discard":
            queue.discard(key)
            plain.pop(key, None)
        else:
            taken: list[str] = []
            while queue.waiting(at):
                taken += queue.take(at, 1)
            assert sorted(taken) == sorted(each for each, time in plain.items() if time <= at)
            plain = {each: time for each, time in plain.items() if time > at}
        assert {each: queue.get(each) for each in "abcd" if each in queue} == plain
        assert len(queue) == len(plain)


def test_a_step_finds_no_more_than_it_may() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    for number in range(1000):
        queue.set(f"{number:04}", 0.0)
    assert queue.take(0.0, 10) == [f"{number:04}" for number in range(10)]
    for number in range(10, 1000):
        queue.set(f"{number:04}", 5.0)
    assert queue.take(1.0, 10) == []
    assert len(queue) == 990

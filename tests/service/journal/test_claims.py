"""The newest attempt of a key stands for it."""

from __future__ import annotations

import pytest

from milepost.errors import OutcomeUnknown
from service.journal.claims import Claims

KEY, OTHER = ("flights", "a", "k"), ("flights", "b", "k")


def test_an_attempt_may_submit_until_there_is_a_newer_one() -> None:
    claims = Claims()
    with claims.newest(KEY) as older:
        older()
        with claims.newest(KEY) as newer:
            with pytest.raises(OutcomeUnknown):
                older()
            newer()


def test_a_newer_attempt_that_has_ended_was_newer_all_the_same() -> None:
    claims = Claims()
    with claims.newest(KEY) as older:
        with claims.newest(KEY):
            pass
        with pytest.raises(OutcomeUnknown):
            older()


def test_the_end_of_an_older_attempt_leaves_the_newer_one_in_its_place() -> None:
    claims = Claims()
    with claims.newest(KEY):
        newer = claims.newest(KEY)
        check = newer.__enter__()
    check()
    newer.__exit__(None, None, None)


def test_keys_of_other_sessions_are_other_keys() -> None:
    claims = Claims()
    with claims.newest(KEY) as one, claims.newest(OTHER) as other:
        one()
        other()


def test_nothing_is_kept_of_attempts_that_have_ended() -> None:
    claims = Claims()
    with claims.newest(KEY), claims.newest(KEY), claims.newest(OTHER):
        pass
    assert claims._newest == {}

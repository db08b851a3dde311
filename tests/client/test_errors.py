"""The tree of errors: each code has its class, and a problem document comes back as what it was."""

from __future__ import annotations

import pickle

import pytest

from milepost.errors import ERROR_OF, MilepostError, OutcomeUnknown, Problem, ServerFault, VersionMismatch, problem_from
from milepost.wire import PROBLEM_TYPE_PREFIX, PROBLEMS, Code, Outcome


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_its_class_and_its_defaults(code: Code) -> None:
    error = problem_from(PROBLEMS[code].status, {"type": PROBLEM_TYPE_PREFIX + code.value})
    assert type(error) is ERROR_OF[code]
    assert isinstance(error, MilepostError)
    assert (error.status, error.retryable, error.outcome) == (
        PROBLEMS[code].status,
        PROBLEMS[code].retryable,
        PROBLEMS[code].outcome,
    )
    assert str(error) == f"{code.value}: {PROBLEMS[code].title}"


def test_what_a_document_says_counts_more_than_the_defaults() -> None:
    document = {
        "type": "urn:milepost:version-mismatch",
        "detail": "it moved",
        "retryable": True,
        "outcome": "unknown",
        "current": "v9",
    }
    error = problem_from(412, document, retry_after=2.0)
    assert isinstance(error, VersionMismatch)
    assert (error.retryable, error.outcome, error.current) == (True, Outcome.UNKNOWN, "v9")
    assert (error.detail, error.retry_after, error.extras) == ("it moved", 2.0, {"current": "v9"})


def test_a_code_of_a_later_service_keeps_its_text() -> None:
    error = problem_from(418, {"type": "urn:milepost:teapot", "detail": "short and stout", "retryable": False})
    assert isinstance(error, ServerFault)
    assert "418 urn:milepost:teapot short and stout" in str(error)


def test_a_problem_survives_pickling() -> None:
    error = OutcomeUnknown(Code.OUTCOME_UNKNOWN, "who knows", retryable=False, extras={"current": 7}, retry_after=1.5)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is OutcomeUnknown
    assert isinstance(again, Problem)
    assert (str(again), vars(again)) == (str(error), vars(error))

"""Refusals of the rules as the typed errors that leave the service."""

from __future__ import annotations

from milepost.errors import OutcomeUnknown, VersionMismatch
from milepost.wire import Code, Outcome
from milepost_server.basics.problems import refusal
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import Add
from milepost_server.rules.decisions import DecisionContext, Refused
from milepost_server.rules.guards import retry_may_run


def test_a_refusal_keeps_what_is_usual_for_its_code() -> None:
    error = refusal(Refused(Code.VERSION_MISMATCH, "older", {"current": "a.2"}))
    assert isinstance(error, VersionMismatch)
    assert (error.outcome, error.retryable, error.current) == (Outcome.NOT_APPLIED, False, "a.2")


def test_a_retry_whose_answer_is_forgotten_is_not_told_to_retry() -> None:
    context = DecisionContext(revision=900, lineage="a", wall="", keys_horizon=100)
    refused = retry_may_run(Add(Attempt("session", "key", 2), store_name="store", name="name"), 800, context)
    assert refused is not None
    error = refusal(refused)
    assert isinstance(error, OutcomeUnknown)
    assert (error.outcome, error.retryable) == (Outcome.UNKNOWN, False)

"""What answers of the Kubernetes API mean, and what no answer means."""

from __future__ import annotations

import json
import ssl

import pytest
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NameResolutionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from milepost_backends.contract import BackendError, Misconfigured, Refusal, StorageFull, StorageUnavailable
from milepost_backends.kubernetes.errors import ApiAnswer, Fate, NoAnswer, NotSent, backend_error, transport_error

pytestmark = pytest.mark.kubernetes


def answer(status: int, message: str = "", reason: str = "") -> ApiAnswer:
    """Make an answer as it comes over the wire."""
    return ApiAnswer.read(status, json.dumps({"kind": "Status", "message": message, "reason": reason}).encode())


FULL = "etcdserver: mvcc: database space exceeded"
LARGE = "etcdserver: request is too large"


@pytest.mark.parametrize(
    ("status", "message", "fate"),
    [
        (200, "", Fate.APPLIED),
        (201, "", Fate.APPLIED),
        (400, "", Fate.NOT_APPLIED),
        (401, "", Fate.NOT_APPLIED),
        (403, "", Fate.NOT_APPLIED),
        (404, "", Fate.NOT_APPLIED),
        (409, "", Fate.NOT_APPLIED),
        (413, "", Fate.NOT_APPLIED),
        (422, "", Fate.NOT_APPLIED),
        (429, "", Fate.NOT_APPLIED),
        (500, LARGE, Fate.NOT_APPLIED),
        (500, FULL, Fate.UNKNOWN),
        (302, "", Fate.UNKNOWN),
        (408, "", Fate.UNKNOWN),
        (499, "", Fate.UNKNOWN),
        (500, "something else", Fate.UNKNOWN),
        (502, "", Fate.UNKNOWN),
        (503, LARGE, Fate.UNKNOWN),
        (504, "", Fate.UNKNOWN),
    ],
)
def test_a_request_has_one_of_three_ends(status: int, message: str, fate: Fate) -> None:
    assert answer(status, message).fate is fate


@pytest.mark.parametrize(
    ("status", "message", "refusal", "error"),
    [
        (401, "Unauthorized", Refusal.DENIED, Misconfigured),
        (403, "forbidden: cannot list", Refusal.DENIED, Misconfigured),
        (403, "exceeded quota: objects", Refusal.FULL, StorageFull),
        (500, FULL, Refusal.FULL, StorageFull),
        (500, LARGE, Refusal.TOO_LARGE, StorageUnavailable),
        (413, "", Refusal.TOO_LARGE, StorageUnavailable),
        (422, "data: Too long: may not be more than 1048576 bytes", Refusal.TOO_LARGE, StorageUnavailable),
        (422, "data: Forbidden: field is immutable", Refusal.FAILED, StorageUnavailable),
        (404, "not found", Refusal.FAILED, StorageUnavailable),
        (400, "Client sent an HTTP request to an HTTPS server.", Refusal.FAILED, Misconfigured),
        (405, "", Refusal.FAILED, Misconfigured),
        (406, "", Refusal.FAILED, Misconfigured),
        (415, "", Refusal.FAILED, Misconfigured),
        (429, "later", Refusal.FAILED, StorageUnavailable),
    ],
)
def test_a_refusal_has_a_reason(status: int, message: str, refusal: Refusal, error: type[BackendError]) -> None:
    refused = answer(status, message)
    assert refused.refusal is refusal
    translated = backend_error(refused, "look")
    assert type(translated) is error
    assert message in str(translated)


def test_what_may_have_been_applied_is_no_misconfiguration() -> None:
    assert type(backend_error(answer(504, "timeout"), "look")) is StorageUnavailable


def test_a_status_is_taken_apart_and_plain_text_is_a_message() -> None:
    conflict = answer(409, "the object has been modified", "Conflict")
    assert (conflict.reason, conflict.message) == ("Conflict", "the object has been modified")
    plain = ApiAnswer.read(429, b"Too many requests, please try again later.\n")
    assert (plain.reason, plain.message) == ("", "Too many requests, please try again later.")
    assert ApiAnswer.read(502, b"\xff\xfe").fate is Fate.UNKNOWN


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NameResolutionError("h", None, OSError("no such host")), NotSent),  # type: ignore[arg-type]
        (ConnectTimeoutError("slow"), NotSent),
        (SSLError(ssl.SSLCertVerificationError("self-signed certificate")), NotSent),
        (SSLError(ssl.SSLError("bad record mac")), NoAnswer),
        (ReadTimeoutError(None, "/", "slow"), NoAnswer),  # type: ignore[arg-type]
        (ProtocolError("Connection aborted.", ConnectionResetError()), NoAnswer),
        (HTTPError("anything else"), NoAnswer),
        (LocationParseError("?"), Misconfigured),
    ],
)
def test_of_no_answer_it_is_said_whether_anything_was_sent(error: HTTPError, kind: type[BackendError]) -> None:
    assert type(transport_error(error, "look")) is kind

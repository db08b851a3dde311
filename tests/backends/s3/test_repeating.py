"""A server that fails for a moment: what was asked is asked again, as long as the caller is patient, and done once."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from milepost_backends.contract import BlobExists, StorageRefused
from milepost_backends.s3.blobs import S3Blobs
from tests.backends.s3.conftest import S3Place
from tests.contracts.streams import read, stream
from tests.support.network.gateway import Fault, Gateway, Request

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
PATIENT: dict[str, Any] = {"patience": 120.0}
SMALL, LARGE = os.urandom(70_000), os.urandom(11 * MIB)
MOMENTS: dict[str, dict[str, Any]] = {
    "500": {"answer": (500, "InternalError")},
    "503": {"answer": (503, "SlowDown")},
    "409": {"answer": (409, "ConditionalRequestConflict")},
    "408": {"answer": (408, "RequestTimeout")},
    "429": {"answer": (429, "TooManyRequests")},
    "reset": {"drop": True},
    "lost": {"lose_answer": True},
}
CONDITION_FAILED = "<Error><Code>PreconditionFailed</Code></Error>"
LATER = pytest.mark.later
"""What takes a large blob each time."""
REFUSALS = [(403, "AccessDenied"), (404, "NoSuchBucket"), (400, "InvalidRequest"), (501, "NotImplemented")]


def puts(request: Request) -> bool:
    """Whether an object is being put whole."""
    return request.method == "PUT" and "partNumber" not in request.target


def parts(request: Request) -> bool:
    """Whether a part of one is being sent."""
    return "partNumber" in request.target


def begins(request: Request) -> bool:
    """Whether an upload is being begun."""
    return request.method == "POST" and "uploadId" not in request.target


def completes(request: Request) -> bool:
    """Whether an upload is being completed."""
    return request.method == "POST" and "uploadId" in request.target


def looks(request: Request) -> bool:
    """Whether somebody looks at an object."""
    return request.method == "HEAD"


def gets(request: Request) -> bool:
    """Whether an object is being read."""
    return request.method == "GET"


PUT_OR_COMPLETION = pytest.mark.parametrize(
    ("which", "whole"),
    [pytest.param(puts, SMALL, id="put"), pytest.param(completes, LARGE, id="completion", marks=LATER)],
)


async def in_pieces(whole: bytes) -> AsyncIterator[bytes]:
    """The bytes, a part of a megabyte at a time."""
    for begin in range(0, len(whole), 700_001):
        yield whole[begin : begin + 700_001]


@pytest.mark.parametrize(
    ("moment", "times"), [*((moment, 1) for moment in MOMENTS), ("503", 4), ("lost", 4)], ids=lambda each: str(each)
)
@pytest.mark.parametrize(
    ("which", "whole"),
    [
        pytest.param(puts, SMALL, id="put"),
        pytest.param(completes, LARGE, id="completion", marks=LATER),
        pytest.param(parts, LARGE, id="part", marks=LATER),
        pytest.param(begins, LARGE, id="beginning", marks=LATER),
    ],
)
async def test_a_write_that_fails_for_a_moment_is_done(
    faulty: tuple[S3Blobs, Gateway], s3: S3Place, which: Any, whole: bytes, moment: str, times: int
) -> None:
    store, gateway = faulty
    fault = Fault(which, times=times, **MOMENTS[moment])
    gateway(fault)
    assert await store.put("blob", in_pieces(whole), **PATIENT) == len(whole)
    assert fault.times == 0 or moment == "lost", "the fault was not met"
    gateway()
    assert await read(store, "blob") == whole
    assert s3.objects() == ["blob"]
    if which is not begins:  # an upload whose id was lost cannot be aborted before it is a day old
        assert s3.uploads() == []


@PUT_OR_COMPLETION
async def test_who_looks_whether_the_bytes_are_there_asks_again_too(
    faulty: tuple[S3Blobs, Gateway], which: Any, whole: bytes
) -> None:
    store, gateway = faulty
    gateway(Fault(which, times=1, lose_answer=True), Fault(looks, times=4, answer=(503, "")))
    assert await store.put("blob", in_pieces(whole), **PATIENT) == len(whole)


@PUT_OR_COMPLETION
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_repeat_never_takes_the_place_of_another_writers_blob(
    faulty: tuple[S3Blobs, Gateway], s3: S3Place, which: Any, whole: bytes, moment: str
) -> None:
    store, gateway = faulty
    s3.overwrite("blob", b"another writer's")
    gateway(Fault(which, times=2, **MOMENTS[moment]))
    with pytest.raises(BlobExists):
        await store.put("blob", in_pieces(whole), **PATIENT)
    assert await read(store, "blob") == b"another writer's"


@PUT_OR_COMPLETION
@pytest.mark.parametrize("answer", REFUSALS, ids=lambda answer: answer[1])
async def test_a_refusal_is_not_repeated(
    faulty: tuple[S3Blobs, Gateway], which: Any, whole: bytes, answer: tuple[int, str]
) -> None:
    store, gateway = faulty
    gateway(Fault(which, answer=answer))
    with pytest.raises(StorageRefused):
        await store.put("blob", in_pieces(whole), **PATIENT)
    assert len([request for request in gateway.requests if which(request)]) == 1


@pytest.mark.parametrize(("start", "end"), [(0, None), (10, 60_000)], ids=["whole", "range"])
@pytest.mark.parametrize("moment", [name for name in MOMENTS if name != "409"])
async def test_a_read_survives_more_than_three_failures_in_a_row(
    faulty: tuple[S3Blobs, Gateway], start: int, end: int | None, moment: str
) -> None:
    store, gateway = faulty
    await store.put("blob", stream(SMALL))
    for which in (gets, looks):
        gateway(Fault(which, times=4, **MOMENTS[moment]))
        assert await read(store, "blob", start, end) == SMALL[start:end]


async def test_a_reading_that_goes_on_survives_them_too(faulty: tuple[S3Blobs, Gateway]) -> None:
    store, gateway = faulty
    await store.put("blob", in_pieces(LARGE))
    gateway(Fault(gets, times=1, cut_after=3 * MIB), Fault(gets, times=7, answer=(503, "SlowDown")))
    assert await read(store, "blob") == LARGE


@pytest.mark.parametrize("answer", [(403, "AccessDenied"), (404, "NoSuchBucket")], ids=lambda answer: answer[1])
async def test_a_read_that_is_refused_is_not_repeated(faulty: tuple[S3Blobs, Gateway], answer: tuple[int, str]) -> None:
    store, gateway = faulty
    await store.put("blob", stream(SMALL))
    gateway.requests.clear()
    gateway(Fault(gets, answer=answer))
    with pytest.raises(StorageRefused):
        await read(store, "blob")
    assert len([request for request in gateway.requests if gets(request)]) == 1


@pytest.mark.parametrize(
    ("which", "whole", "answer"),
    [
        (puts, SMALL, (500, "PreconditionFailed")),
        (completes, LARGE, (500, "PreconditionFailed")),
        (completes, LARGE, (200, CONDITION_FAILED)),
    ],
    ids=["put", "completion", "completion that began well"],
)
async def test_a_condition_that_failed_is_known_by_its_code(
    faulty: tuple[S3Blobs, Gateway], s3: S3Place, which: Any, whole: bytes, answer: tuple[int, str]
) -> None:
    """S3 may begin its answer with 200 before it knows that another writer was first."""
    store, gateway = faulty
    s3.overwrite("blob", b"another writer's")
    gateway(Fault(which, answer=answer))
    with pytest.raises(BlobExists):
        await store.put("blob", in_pieces(whole), **PATIENT)
    assert len([request for request in gateway.requests if which(request)]) == 1
    assert await read(store, "blob") == b"another writer's"


async def test_a_completion_that_took_effect_is_known_though_its_repeat_is_refused_with_200(
    faulty: tuple[S3Blobs, Gateway],
) -> None:
    store, gateway = faulty
    gateway(Fault(completes, times=1, lose_answer=True), Fault(completes, answer=(200, CONDITION_FAILED)))
    assert await store.put("blob", in_pieces(LARGE), **PATIENT) == len(LARGE)
    assert await read(store, "blob") == LARGE


@pytest.mark.parametrize("status", [200, 500, 503])
async def test_a_refusal_is_known_by_its_code(faulty: tuple[S3Blobs, Gateway], status: int) -> None:
    store, gateway = faulty
    body = "<Error><Code>NotImplemented</Code></Error>" if status == 200 else "NotImplemented"
    gateway(Fault(completes, answer=(status, body)))
    with pytest.raises(StorageRefused):
        await store.put("blob", in_pieces(LARGE), **PATIENT)

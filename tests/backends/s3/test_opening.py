"""Opening S3 blobs: whose credentials, which server, and what is wrong."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from botocore import auth, compat

from milepost_backends.contract import Misconfigured, StorageFull, StorageUnavailable
from milepost_backends.s3 import errors as s3_errors
from milepost_backends.s3.address import parse_address
from milepost_backends.s3.blobs import S3Blobs
from milepost_backends.s3.connection import S3Connection
from milepost_backends.s3.setup import ABANDONED_AFTER, prepare
from milepost_server.blobs.keys import blob_key, file_key
from testbed.ports import Port
from testbed.seaweedfs import ALL_RIGHTS, NO_RIGHTS, REGION, S3Keys
from tests.backends.s3.conftest import S3Place
from tests.contracts.streams import read, stream
from tests.support.network.gateway import Fault, Request, gateway
from tests.support.servers.s3 import BUCKET, alone

pytestmark = pytest.mark.anyio

LONG_AGO = timedelta(seconds=-60)
"""What was begun by now was begun longer ago than that."""


async def works(url: str) -> bool:
    """Whether a store at the URL opens, takes a blob and gives it back."""
    store = S3Blobs(url)
    await store.open()
    try:
        await store.put("blob", stream(b"here"))
        return await read(store, "blob") == b"here"
    finally:
        await store.close()


async def opens(url: str) -> bool:
    """Whether a store at the URL opens."""
    store = S3Blobs(url)
    await store.open()
    await store.close()
    return True


async def test_a_bucket_that_is_not_there_is_named(s3: S3Place) -> None:
    with pytest.raises(Misconfigured, match="the bucket no-such-bucket does not exist"):
        await S3Blobs(s3.server.url("no-such-bucket")).open()


@pytest.mark.parametrize(
    "keys", [NO_RIGHTS, S3Keys(ALL_RIGHTS.access_key, "not-the-secret"), S3Keys("nobody", "not-the-secret")]
)
async def test_credentials_that_are_refused(s3: S3Place, keys: S3Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in keys.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Misconfigured, match=f"the credentials are refused for bucket {BUCKET}") as refused:
        await S3Blobs(s3.url()).open()
    assert keys.secret_key not in str(refused.value)


@pytest.mark.parametrize("hours", [-2, 2])
async def test_a_clock_that_is_off_is_waited_out(s3: S3Place, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is botocore's and ours; that of the whole machine cannot be moved without the server's."""
    jumped = timedelta(hours=hours)
    with monkeypatch.context() as clock:
        clock.setattr(auth, "get_current_datetime", lambda: compat.get_current_datetime() + jumped)
        clock.setattr(s3_errors, "wall_clock", lambda: datetime.now(timezone.utc) + jumped)
        direction = "behind" if hours > 0 else "ahead of"
        with pytest.raises(StorageUnavailable, match=rf"answers 403, and its clock is 7\d\d\d s {direction} ours"):
            await S3Blobs(s3.url()).open()
    assert await works(s3.url())


async def test_no_credentials_at_all(s3: S3Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, tmp_path)
    with pytest.raises(Misconfigured, match="Unable to locate credentials"):
        await S3Blobs(s3.url()).open()


async def test_credentials_and_endpoint_from_the_files_of_the_aws_sdk(
    s3: S3Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, tmp_path)
    keys = f"aws_access_key_id = {ALL_RIGHTS.access_key}\naws_secret_access_key = {ALL_RIGHTS.secret_key}\n"
    (tmp_path / "credentials").write_text(f"[blobs]\n{keys}")
    settings = f"region = {REGION}\nendpoint_url = {s3.server.endpoint_url}\ns3 =\n  addressing_style = path\n"
    (tmp_path / "config").write_text(f"[profile blobs]\n{settings}")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "blobs")
    assert await works(f"s3://{BUCKET}/{s3.prefix}")


async def test_a_profile_that_is_not_there(s3: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(Misconfigured, match="nobody"):
        await S3Blobs(s3.url()).open()


async def test_the_endpoint_from_the_environment(s3: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.server.endpoint_url)
    assert await works(f"s3://{BUCKET}/{s3.prefix}?region={REGION}&addressing_style=path")


async def test_the_url_goes_before_the_environment(s3: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with_nobody = Port()
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, f"http://{with_nobody.address}")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    assert await works(s3.url())


async def test_an_endpoint_in_the_environment_that_is_no_url(s3: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "here")
    with pytest.raises(Misconfigured, match="here"):
        await S3Blobs(f"s3://{BUCKET}/{s3.prefix}").open()


async def test_certificates_that_cannot_be_read(s3: S3Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))
    with pytest.raises(Misconfigured, match=r"none\.pem"):
        await S3Blobs(s3.url()).open()


async def test_credentials_of_a_program_are_renewed_before_they_end(
    s3: S3Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``credential_process`` stands for all that expires; what it prints is good for a minute, so it is asked again."""
    alone(monkeypatch, tmp_path)
    asked = tmp_path / "asked"
    issued = {
        "Version": 1,
        "AccessKeyId": ALL_RIGHTS.access_key,
        "SecretAccessKey": ALL_RIGHTS.secret_key,
        "Expiration": "EXPIRES",
    }
    program = tmp_path / "credentials.sh"
    when = "$(date -u -d '+60 seconds' +%Y-%m-%dT%H:%M:%SZ)"
    program.write_text(f"echo once >> {asked}\necho '{json.dumps(issued)}' | sed \"s/EXPIRES/{when}/\"\n")
    (tmp_path / "config").write_text(f"[default]\nregion = {REGION}\ncredential_process = sh {program}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert await works(s3.url())
    assert asked.read_text().count("once") > 1


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("PUT", ".milepost-probe", ""),
        ("POST", "uploadId=", '<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'),
    ],
)
async def test_a_server_that_overwrites_is_refused(s3: S3Place, method: str, target: str, body: str) -> None:
    """The gateway answers in the place of a server that does not know If-None-Match, as older ones do."""

    def meant(request: Request) -> bool:
        return request.method == method and target in request.target and "partNumber" not in request.target

    async with gateway(s3.server.endpoint_url) as before:
        before(Fault(meant, answer=(200, body)))
        with pytest.raises(Misconfigured, match="in spite of If-None-Match"):
            await S3Blobs(s3.url(before.url)).open()
    assert s3.uploads() == []


def puts_the_probe(request: Request) -> bool:
    """Whether the small object of the trial is put whole."""
    return request.method == "PUT" and request.target.endswith(".milepost-probe")


def completes(request: Request) -> bool:
    """Whether an upload is completed."""
    return request.method == "POST" and "uploadId=" in request.target


STEPS: dict[str, tuple[Callable[[Request], bool], str]] = {
    "HeadBucket": (lambda request: request.method == "HEAD", ""),
    "PutObject": (puts_the_probe, " with If-None-Match: *"),
    "CreateMultipartUpload": (lambda request: request.method == "POST" and "uploadId" not in request.target, ""),
    "UploadPart": (lambda request: "partNumber" in request.target, ""),
    "CompleteMultipartUpload": (completes, " with If-None-Match: *"),
    "AbortMultipartUpload": (lambda request: request.method == "DELETE" and "uploadId" in request.target, ""),
    "GetObject": (lambda request: request.method == "GET" and "probe" in request.target, ""),
    "DeleteObject": (lambda request: request.method == "DELETE" and "probe-none" in request.target, ""),
}
"""What a trial asks for, and the header on which the answer depends."""
REFUSALS = [(400, "InvalidArgument"), (405, "MethodNotAllowed"), (501, ""), (400, ""), (304, "")]


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        *((call, (501, "NotImplemented")) for call in STEPS),
        *((call, answer) for call in ("PutObject", "CompleteMultipartUpload") for answer in REFUSALS),
    ],
    ids=str,
)
async def test_a_server_that_refuses_for_good_is_named_with_the_call(
    s3: S3Place, call: str, answer: tuple[int, str]
) -> None:
    """The gateway answers in the place of servers that lack the call or the header: the real one lacks neither."""
    meant, header = STEPS[call]
    async with gateway(s3.server.endpoint_url) as before:
        before(Fault(meant, answer=answer))
        with pytest.raises(Misconfigured) as refused:
            await S3Blobs(s3.url(before.url)).open()
        told = str(refused.value)
        assert f"{header}: the S3 server answers {answer[0]}" in told
        assert f" to {call} at {before.address}" in told
    assert "\n" not in told
    if call != "HeadBucket":  # that has no body, and so no code
        assert answer[1] in told


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((200, code) for code in ("NotImplemented", "MethodNotAllowed", "InvalidArgument", "AccessDenied")),
        *((500, code) for code in ("NotImplemented", "InvalidRequest", "NoSuchBucket")),
        (503, "NotImplemented"),
    ],
)
async def test_a_code_counts_and_not_the_status_beside_it(s3: S3Place, status: int, code: str) -> None:
    """S3 itself answers the completion of an upload with 200 before it knows the end, which the body tells."""
    body = f"<Error><Code>{code}</Code></Error>" if status == 200 else code
    async with gateway(s3.server.endpoint_url) as before:
        before(Fault(completes, answer=(status, body)))
        with pytest.raises(Misconfigured):
            await S3Blobs(s3.url(before.url)).open()


@pytest.mark.parametrize("status", [200, 409, 500])
@pytest.mark.parametrize("step", [puts_the_probe, completes], ids=["put", "completion"])
async def test_a_condition_that_failed_is_known_by_its_code(
    s3: S3Place, step: Callable[[Request], bool], status: int
) -> None:
    async with gateway(s3.server.endpoint_url) as before:
        before(Fault(step, in_its_place=(status, "<Error><Code>PreconditionFailed</Code></Error>")))
        assert await opens(s3.url(before.url))


@pytest.mark.parametrize(
    "answer",
    [(500, "InternalError"), (503, "SlowDown"), (503, ""), (429, ""), (400, "RequestTimeout"), (400, "SlowDown")],
    ids=str,
)
@pytest.mark.parametrize("call", ["PutObject", "CompleteMultipartUpload"])
async def test_a_server_that_fails_for_a_moment_is_away(s3: S3Place, call: str, answer: tuple[int, str]) -> None:
    async with gateway(s3.server.endpoint_url) as before:
        before(Fault(STEPS[call][0], answer=answer))
        with pytest.raises(StorageUnavailable):
            await S3Blobs(s3.url(before.url)).open()
        before()
        assert await works(s3.url(before.url))


async def test_digests_of_a_server_that_does_not_check_them_are_not_relied_on(s3: S3Place) -> None:
    """The gateway answers in the place of a server that keeps the digest it is given, whatever the bytes are."""
    async with gateway(s3.server.endpoint_url) as before:
        before(Fault(lambda request: is_put(request) and "damaged" in request.target, answer=(200, "")))
        store = S3Blobs(s3.url(before.url))
        await store.open()
        await store.put("blob", stream(b"here"))
        assert await store.checked_digest("blob") is None
        await store.close()
        before()
        await store.open()
        assert await store.checked_digest("blob") == hashlib.sha256(b"here").hexdigest()
        await store.close()


async def test_nothing_stays_of_the_bytes_with_a_wrong_digest(s3: S3Place) -> None:
    """They are put by hand, and the gateway says that they were taken, for the real server does not take them."""
    async with gateway(s3.server.endpoint_url) as before:
        before(Fault(lambda request: is_put(request) and "damaged" in request.target, answer=(200, "")))
        s3.overwrite(".milepost-probe-damaged", b"milepost")
        assert await works(s3.url(before.url))
    found = s3.client.list_objects_v2(Bucket=BUCKET, Prefix=s3.path(".milepost"))["Contents"]
    assert [entry["Key"] for entry in found] == [s3.path(".milepost-probe")]


async def test_a_full_server_opens_for_reading(s3: S3Place) -> None:
    """The gateway answers in the place of a full server."""
    assert await works(s3.url())
    async with gateway(s3.server.endpoint_url) as before:
        before(Fault(is_put, answer=(507, "InsufficientStorage")))
        store = S3Blobs(s3.url(before.url))
        await store.open()
        assert await read(store, "blob") == b"here"
        with pytest.raises(StorageFull):
            await store.put("other", stream(b"x"))
        await store.delete("blob")
        await store.close()
    assert s3.objects() == []


async def test_uploads_that_cannot_be_listed_are_let_be(s3: S3Place) -> None:
    async with gateway(s3.server.endpoint_url) as before:
        before(
            Fault(
                lambda request: request.method == "GET" and "uploads" in request.target, answer=(501, "NotImplemented")
            )
        )
        assert await works(s3.url(before.url))


async def test_a_server_that_is_not_there_yet(s3: S3Place) -> None:
    nowhere = Port()
    store = S3Blobs(s3.url(f"http://{nowhere.address}"))
    with pytest.raises(StorageUnavailable):
        await store.open()
    with pytest.raises(StorageUnavailable, match="not open"):
        await store.size("blob")
    await store.close()


def opened(url: str, abandoned_after: timedelta) -> None:
    """Open a store when uploads begun so long ago count as abandoned; by the server's clock, which counts seconds."""
    connection = S3Connection(parse_address(url), deadline=20.0, threads=2)
    try:
        prepare(connection, abandoned_after)
    finally:
        connection.close()


def blob() -> str:
    """The key of a blob."""
    return blob_key(secrets.token_hex(6), "flights", 1)


async def test_uploads_of_the_dead_are_cleared_away(s3: S3Place) -> None:
    dead = sorted([blob(), file_key(secrets.token_hex(6), "flights", 1)])
    for key in dead:
        s3.client.create_multipart_upload(Bucket=BUCKET, Key=s3.path(key))
    opened(s3.url(), ABANDONED_AFTER)
    assert sorted(s3.uploads()) == dead
    opened(s3.url(), LONG_AGO)
    assert s3.uploads() == []


async def test_uploads_of_others_go_on(s3: S3Place) -> None:
    """Also below our prefix, which may be that of others, and that of a deployment inside it."""
    others = ["a/1", "warehouse/orders/_temporary/part-0000.parquet", f"team/{blob()}"]
    begin = s3.client.create_multipart_upload
    for key in [*(s3.path(key) for key in others), f"{s3.prefix}-next-door/{blob()}"]:
        begin(Bucket=BUCKET, Key=key)
    opened(s3.url(), LONG_AGO)
    assert sorted(s3.uploads()) == sorted(others)
    beside = s3.client.list_multipart_uploads(Bucket=BUCKET, Prefix=f"{s3.prefix}-next-door/")
    assert len(beside["Uploads"]) == 1


async def test_uploads_of_others_go_on_in_a_bucket_without_a_prefix(s3: S3Place) -> None:
    dead = blob()
    begin = s3.client.create_multipart_upload
    foreign = begin(Bucket=BUCKET, Key=s3.path("part-0000.parquet"))["UploadId"]
    begin(Bucket=BUCKET, Key=dead)
    opened(s3.server.url(BUCKET), LONG_AGO)
    assert "Uploads" not in s3.client.list_multipart_uploads(Bucket=BUCKET, Prefix=dead)
    part = {"Bucket": BUCKET, "Key": s3.path("part-0000.parquet"), "UploadId": foreign}
    sent = s3.client.upload_part(**part, PartNumber=1, Body=b"theirs")
    s3.client.complete_multipart_upload(**part, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": sent["ETag"]}]})
    assert s3.objects() == ["part-0000.parquet"]


def is_put(request: Request) -> bool:
    """Whether an object is being put."""
    return request.method == "PUT"

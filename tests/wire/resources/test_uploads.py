"""Uploads on the wire, over a real S3 server: announced, put by a signed URL, taken by one handle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace as changed
from pathlib import Path

import httpx
import pytest

from milepost_backends.s3.blobs import S3Blobs
from milepost_server.journal import JournalSettings
from testbed.seaweedfs import S3Endpoint
from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.contracts.places import Services
from tests.support.servers import s3
from tests.support.servers.replicas import PROMPT, Rig, embedded
from tests.wire.support.api import Api, Json, connect, digest, open_session, problem, unique, until
from tests.wire.support.in_process import in_process
from tests.wire.support.uploading import (
    add,
    announced,
    announcement,
    behind,
    place_of,
    put,
    reference,
    replace,
    uploaded,
)

CONTENT = b"the bytes of a state"


@pytest.fixture(scope="module")
def weed(services: Services) -> S3Endpoint:
    return s3.shared(services)


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory, services: Services) -> Iterator[ServerProcess]:
    """A replica that leads, whose blobs lie in a bucket."""
    directory = tmp_path_factory.mktemp("signing")
    with ServerProcess(directory, *ALL_AS_BLOBS, blobs=s3.fresh_url(directory, services)) as process:
        yield process.start()


@pytest.fixture(scope="module")
def http(signing: ServerProcess) -> Iterator[httpx.Client]:
    """A client of that replica."""
    with connect(signing.url) as client:
        yield client


# -- the way it goes ---------------------------------------------------------------------------------------------------


def test_bytes_that_were_put_directly_become_a_handle(api: Api) -> None:
    upload = announced(api, CONTENT)
    assert upload.keys() == {"upload", "method", "url", "headers", "expires_in"}
    assert upload["method"] == "PUT"
    assert 0 < upload["expires_in"] <= 900
    assert put(upload, CONTENT).status_code == 200
    response = add(api, "a", reference(upload, CONTENT), **{"Milepost-Label-batch": "7"})
    assert response.status_code == 201
    record = response.json()
    assert {**record, **announcement(CONTENT)} == record
    assert (record["labels"], record["locks"]) == ({"batch": "7"}, [api.session])
    assert response.headers["etag"] == f'"{record["version"]}"'
    assert api.get("a").json() == record
    assert api.state("a").content == CONTENT


def test_a_replacement_takes_an_upload_as_well(api: Api) -> None:
    version = api.added("a", b"old")["version"]
    response = replace(api, "a", version, uploaded(api, CONTENT))
    assert response.status_code == 200
    assert response.json()["version"] != version
    assert api.state("a").content == CONTENT


def test_an_empty_state_and_a_large_one(api: Api) -> None:
    large = bytes(range(256)) * 32 * 1024
    for name, content in (("empty", b""), ("large", large)):
        assert add(api, name, uploaded(api, content)).status_code == 201
        assert api.state(name).content == content


def test_an_upload_shows_nowhere(api: Api) -> None:
    before, revision = api.everything(), api.revision()
    announced(api, CONTENT)
    assert api.revision() > revision
    assert api.everything() == before
    assert api.lock_all().json() == {"handles": [], "corrupt": []}


def test_clearing_the_store_leaves_it_alone(api: Api) -> None:
    sent = uploaded(api, CONTENT)
    api.added("other")
    assert api.clear().json() == {"cleared": 1}
    assert add(api, "a", sent).status_code == 201


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_one_upload_becomes_one_handle_at_most(api: Api) -> None:
    sent = uploaded(api, CONTENT)
    version = add(api, "a", sent).json()["version"]
    problem(add(api, "b", sent), 404, "upload-unknown")
    problem(replace(api, "a", version, sent), 404, "upload-unknown")
    assert [handle["name"] for handle in api.handles().json()["handles"]] == ["a"]


def test_it_is_of_one_store(api: Api) -> None:
    sent = uploaded(api, CONTENT)
    elsewhere = changed(api, store=f"{api.store}-2")
    problem(add(elsewhere, "a", sent), 404, "upload-unknown")
    assert add(api, "a", sent).status_code == 201


def test_what_was_not_put_yet_is_unknown(api: Api) -> None:
    upload = announced(api, CONTENT)
    problem(add(api, "a", reference(upload, CONTENT)), 404, "upload-unknown")
    put(upload, CONTENT)
    assert add(api, "a", reference(upload, CONTENT)).status_code == 201


@pytest.mark.parametrize("stated", [{"size": 1}, {"sha256": "0" * 64}])
def test_a_reference_that_says_something_else(api: Api, stated: Json) -> None:
    sent = uploaded(api, CONTENT)
    problem(add(api, "a", {**sent, **stated}), 422, "digest-mismatch")
    assert add(api, "a", sent).status_code == 201


@pytest.mark.parametrize("lying", [b"shorter", CONTENT[::-1]], ids=["another size", "another digest"])
def test_other_bytes_than_announced(api: Api, weed: S3Endpoint, lying: bytes) -> None:
    """The server itself refuses other bytes under a signed request, so they are put there behind its back."""
    upload = announced(api, CONTENT)
    bucket, key = place_of(upload["url"])
    with behind(weed) as client:
        client.put_object(Bucket=bucket, Key=key, Body=lying)
    problem(add(api, "a", reference(upload, CONTENT)), 422, "digest-mismatch")
    problem(api.get("a"), 404, "not-exist")


def test_bytes_whose_digest_the_store_does_not_know_are_read_through(api: Api, weed: S3Endpoint) -> None:
    upload = announced(api, CONTENT)
    bucket, key = place_of(upload["url"])
    with behind(weed) as client:
        client.put_object(Bucket=bucket, Key=key, Body=CONTENT)
    assert add(api, "a", reference(upload, CONTENT)).status_code == 201


def test_a_refused_request_leaves_it_for_another_try(api: Api) -> None:
    version = api.added("a")["version"]
    sent = uploaded(api, CONTENT)
    problem(add(api, "a", sent), 409, "already-exists")
    problem(replace(api, "a", "none.1", sent), 412, "version-mismatch")
    problem(replace(api.other(), "a", version, sent), 409, "not-locked")
    epoch = api.granted()
    problem(add(api, "b", sent), 409, "fenced")
    assert add(api.under(epoch), "b", sent).status_code == 201


def test_announcing_needs_a_session_and_no_epoch(api: Api) -> None:
    api.granted()
    announced(api, CONTENT)
    body = announcement(CONTENT)
    problem(changed(api, session=None).call("POST", "/uploads", json=body), 400, "session-required")
    problem(changed(api, session=unique("nobody")).call("POST", "/uploads", json=body), 404, "session-unknown")
    ended = open_session(api.http, 60)
    api.http.delete(f"/v1/sessions/{ended}")
    problem(changed(api, session=ended).call("POST", "/uploads", json=body), 410, "session-expired")


WRONG: list[Json] = [
    {},
    {"size": 5},
    {"sha256": "0" * 64},
    {"size": -1, "sha256": "0" * 64},
    {"size": "5", "sha256": "0" * 64},
    {"size": 5.5, "sha256": "0" * 64},
    {"size": True, "sha256": "0" * 64},
    {"size": 2**63, "sha256": "0" * 64},
    {"size": 5, "sha256": "0" * 63},
    {"size": 5, "sha256": "A" * 64},
    {"size": 5, "sha256": "0" * 64 + "\n"},
    {"size": 5, "sha256": None},
    {"size": 5, "sha256": "0" * 64, "more": 1},
]


@pytest.mark.parametrize("body", WRONG, ids=str)
def test_what_is_no_announcement_or_no_reference(api: Api, body: Json) -> None:
    before = api.everything()
    problem(api.call("POST", "/uploads", json=body), 422, "invalid-request")
    problem(add(api, "a", {"upload": "u", **body}), 422, "invalid-request")
    assert api.everything() == before


@pytest.mark.parametrize("upload", ["", "a/b", "../handles/a", ".", "x" * 201, 7, None])
def test_what_is_no_id_of_an_upload(api: Api, upload: object) -> None:
    problem(add(api, "a", {"upload": upload, **announcement(CONTENT)}), 422, "invalid-request")


def test_a_media_type_that_is_not_taken(api: Api) -> None:
    sent = {"Content-Type": "text/plain"}
    problem(api.call("POST", "/uploads", json=announcement(CONTENT), headers=sent), 415, "unsupported-media-type")


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_retry_gets_the_same_upload_and_can_put_its_bytes(api: Api) -> None:
    keyed, body = api.keyed("k", 1), announcement(CONTENT)
    first = keyed.call("POST", "/uploads", json=body)
    again = api.keyed("k", 2).call("POST", "/uploads", json=body)
    assert (again.status_code, again.headers["milepost-replayed"]) == (201, "true")
    assert "milepost-replayed" not in first.headers
    assert again.json()["upload"] == first.json()["upload"]
    assert put(again.json(), CONTENT).status_code == 200
    assert put(first.json(), CONTENT).status_code == 412
    assert add(api, "a", reference(first.json(), CONTENT)).status_code == 201
    late = api.keyed("k", 3).call("POST", "/uploads", json=body)
    problem(late, 404, "upload-unknown", outcome="applied")
    problem(api.keyed("k").call("POST", "/uploads", json=announcement(b"another")), 422, "idempotency-mismatch")


def test_a_retry_may_come_by_body_or_by_reference(api: Api) -> None:
    sent = uploaded(api, CONTENT)
    keyed = api.keyed("k")
    first = add(keyed, "a", sent)
    for again in (add(keyed, "a", sent), keyed.add("a", CONTENT)):
        assert (again.status_code, again.headers["milepost-replayed"]) == (201, "true")
        assert again.json() == first.json()
    by_body = api.keyed("l").add("b", CONTENT)
    spare = uploaded(api, CONTENT)
    again = add(api.keyed("l"), "b", spare)
    assert again.json() == by_body.json()
    assert add(api, "c", spare).status_code == 201
    assert api.state("a").content == api.state("c").content == CONTENT


def test_a_retry_whose_bytes_are_not_there_is_still_told_that_the_first_was_applied(api: Api) -> None:
    first = api.keyed("k").add("a", CONTENT)
    never_put = reference(announced(api, CONTENT), CONTENT)
    again = add(api.keyed("k", 2), "a", never_put)
    assert (again.status_code, again.json()) == (201, first.json())


# -- redirects ---------------------------------------------------------------------------------------------------------


def redirected(api: Api, **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.call("GET", "/handles/a/state", params={"redirect": "true"}, headers=sent)


def fetched(location: str, **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False, verify=False, timeout=30.0) as client:
        return client.get(location, headers=headers)


def test_a_reader_is_sent_to_the_bytes(api: Api) -> None:
    version = api.added("a", CONTENT)["version"]
    response = redirected(api)
    assert (response.status_code, response.content) == (307, b"")
    assert response.headers["etag"] == f'"{version}"'
    assert response.headers["repr-digest"] == digest(CONTENT)
    assert int(response.headers["milepost-revision"]) > 0
    assert fetched(response.headers["location"]).content == CONTENT
    part = fetched(redirected(api, Range="bytes=4-8").headers["location"], Range="bytes=4-8")
    assert (part.status_code, part.content) == (206, CONTENT[4:9])


def test_a_reader_is_sent_nowhere_unless_he_asks(api: Api) -> None:
    api.added("a", CONTENT)
    for params in ({}, {"redirect": "false"}):
        assert api.call("GET", "/handles/a/state", params=params).content == CONTENT
    problem(api.call("GET", "/handles/a/state", params={"redirect": "maybe"}), 422, "invalid-request")


def test_before_he_is_sent_on_he_is_refused_as_any_reader(api: Api, weed: S3Endpoint) -> None:
    problem(redirected(api), 404, "not-exist")
    version = api.added("a", CONTENT)["version"]
    problem(redirected(api, If_Match='"none.1"'), 412, "version-mismatch")
    problem(redirected(api, Range="bytes=99-"), 416, "range-not-satisfiable")
    bucket, key = place_of(redirected(api, If_Match=f'"{version}"').headers["location"])
    with behind(weed) as client:
        client.put_object(Bucket=bucket, Key=key, Body=CONTENT[:-1])
        problem(redirected(api), 500, "corrupt")
        client.delete_object(Bucket=bucket, Key=key)
        problem(redirected(api), 410, "blob-missing")


def test_no_signature_is_ever_logged(api: Api, signing: ServerProcess) -> None:
    sent = uploaded(api, CONTENT)
    add(api, "a", sent)
    assert "Signature=" in redirected(api).headers["location"]
    problem(add(api, "b", sent), 404, "upload-unknown")
    # The others of this file share the server, and its access log is written a moment later.
    for answered in ("/handles/a/state 307", "/handles/b 404"):
        signing.wait_for_log(f"/v1/stores/{api.store}{answered}")
    assert "Signature" not in signing.logged()


# -- limits and time ---------------------------------------------------------------------------------------------------


def pending(rig: Rig, store: str) -> int:
    return rig.replica.journal.read().view.pending_uploads(store)


def test_limits_and_the_end_of_an_uploads_time(tmp_path: Path, services: Services) -> None:
    url = s3.fresh_url(tmp_path, services)
    settings = changed(
        PROMPT, max_state_bytes=len(CONTENT), collect_after_seconds=0.0, journal=JournalSettings(most_uploads=2)
    )
    with in_process(tmp_path, settings, embedded(tmp_path, lambda: S3Blobs(url))) as served:
        api, other = Api.on(served.http, "limited"), Api.on(served.http, "other")
        problem(api.call("POST", "/uploads", json=announcement(CONTENT + b"!")), 413, "too-large")
        sent = uploaded(api, CONTENT)
        announced(api, CONTENT)
        problem(api.call("POST", "/uploads", json=announcement(CONTENT)), 429, "too-many-requests")
        announced(other, CONTENT)
        served.rig.clock.advance(settings.upload_seconds + 1.0)
        until(lambda: pending(served.rig, "limited") == 0, "the uploads end")
        problem(add(api, "a", sent), 404, "upload-unknown")
        until(lambda: len(served.rig.blobs.discarded) == 3, "their bytes go")
        assert add(api, "a", uploaded(api, CONTENT)).status_code == 201

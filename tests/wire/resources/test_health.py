"""Around the API: health, leadership, metrics, status; paths, methods and media types that are not there."""

from __future__ import annotations

import re

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import Api, problem


def test_livez_readyz_and_leader(http: httpx.Client) -> None:
    for path in ("/livez", "/readyz", "/leader"):
        response = http.get(path)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/plain")


def test_readyz_verbose_tells_a_line_per_part(http: httpx.Client) -> None:
    for query in ("verbose", "verbose=", "verbose=1"):
        lines = http.get(f"/readyz?{query}").text.splitlines()
        parts = ["[+] leadership", "[+] records", "[+] pointers", "[+] blobs"]
        assert [line.split(":")[0] for line in lines] == parts


def test_readyz_asks_no_part_that_is_left_out(http: httpx.Client) -> None:
    lines = http.get("/readyz?verbose&exclude=pointers&exclude=blobs&exclude=unknown").text.splitlines()
    assert [line.split(":")[0] for line in lines] == ["[+] leadership", "[+] records"]


def test_status(http: httpx.Client, server: ServerProcess) -> None:
    response = http.get("/v1/status")
    assert response.status_code == 200
    status = response.json()
    assert status == {
        "replica": f"127.0.0.1:{server.port}",
        "role": "leader",
        "leader": server.url,
        "term": int(response.headers["milepost-term"]),
        "lease_remaining": None,
        "leading_for": status["leading_for"],
        "replicas": [server.url],
        "version": status["version"],
        "pointers": server.pointers,
        "blobs": server.blobs,
        "epochs_above": 0,
        "cell": None,
        "cells": None,
    }
    assert re.match(r"\d+\.\d+", status["version"])
    assert http.get("/v1/status").json()["leading_for"] > status["leading_for"] > 0


def test_metrics_count_requests_and_tell_who_leads(api: Api, http: httpx.Client) -> None:
    def counted() -> float:
        sample = r'^milepost_requests_total\{method="POST",status="201"\} (\S+)$'
        (count,) = re.findall(sample, http.get("/metrics").text, re.MULTILINE)
        return float(count)

    before = counted()
    api.added("a")
    assert counted() == before + 1
    text = http.get("/metrics").text
    assert re.search(r"^milepost_leading 1\.0$", text, re.MULTILINE)
    assert re.search(rf"^milepost_term {api.current().headers['milepost-term']}\.0$", text, re.MULTILINE)
    assert http.get("/metrics").headers["content-type"].startswith("text/plain")
    assert api.store not in text
    api.granted()
    assert re.search(rf'^milepost_job_led{{store="{api.store}"}} 1\.0$', http.get("/metrics").text, re.MULTILINE)


# -- what is not there -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/nowhere", "/redoc", "/v1", "/v1/nowhere", "/v2/status", "/v1/stores/a/nowhere", "/livez/x"]
)
def test_paths_that_are_not_there(http: httpx.Client, path: str) -> None:
    problem(http.get(path), 404, "no-route")
    problem(http.post(path, content=b"x"), 404, "no-route")


WRONG_METHODS = {
    ("PATCH", "/v1/stores/s/handles/a"): {"POST", "PUT", "HEAD", "GET", "DELETE"},
    ("PUT", "/v1/stores/s/handles"): {"GET", "DELETE"},
    ("GET", "/v1/stores/s/handles/a/lock"): {"POST", "DELETE"},
    ("POST", "/v1/stores/s/handles/a/state"): {"GET"},
    ("GET", "/v1/stores/s/locks"): {"POST", "DELETE"},
    ("PUT", "/v1/stores/s/epoch"): {"POST", "GET", "DELETE"},
    ("POST", "/v1/stores"): {"GET"},
    ("PUT", "/v1/sessions"): {"POST", "GET"},
    ("PUT", "/v1/sessions/a"): {"GET", "DELETE"},
    ("GET", "/v1/sessions/a/keepalive"): {"POST"},
    ("DELETE", "/v1/status"): {"GET"},
    ("POST", "/livez"): {"GET"},
}


@pytest.mark.parametrize(("asked", "allowed"), WRONG_METHODS.items(), ids=[f"{m} {p}" for m, p in WRONG_METHODS])
def test_methods_that_a_path_does_not_take(http: httpx.Client, asked: tuple[str, str], allowed: set[str]) -> None:
    response = http.request(*asked)
    problem(response, 405, "method-not-allowed")
    assert {method.strip() for method in response.headers["allow"].split(",")} == allowed


def test_a_method_that_nobody_knows(http: httpx.Client) -> None:
    problem(http.request("PROPFIND", "/v1/stores"), 405, "method-not-allowed")


JSON_ANSWERS = ["/handles/a", "/handles", "/epoch"]


@pytest.mark.parametrize("accept", ["text/html", "image/*", "application/json;q=0", "text/html, text/*;q=0.9"])
def test_an_answer_that_the_caller_does_not_accept(api: Api, accept: str) -> None:
    api.added("a")
    asked = api.with_headers({"Accept": accept})
    for path in JSON_ANSWERS:
        problem(asked.call("GET", path), 406, "not-acceptable")
    problem(asked.state("a"), 406, "not-acceptable")
    problem(api.http.get("/v1/stores", headers={"Accept": accept}), 406, "not-acceptable")
    problem(api.http.get(f"/v1/sessions/{api.session}", headers={"Accept": accept}), 406, "not-acceptable")


@pytest.mark.parametrize(
    "accept",
    [
        "*/*",
        "application/*, application/octet-stream",
        "text/html, */*;q=0.1",
        "Application/JSON, application/octet-stream",
    ],
)
def test_answers_that_the_caller_accepts(api: Api, accept: str) -> None:
    api.added("a")
    asked = api.with_headers({"Accept": accept})
    for path in [*JSON_ANSWERS, "/handles/a/state"]:
        assert asked.call("GET", path).status_code == 200


@pytest.mark.parametrize("media_type", ["text/plain", "application/xml", "application/x-www-form-urlencoded", ""])
def test_a_media_type_that_is_not_taken(api: Api, http: httpx.Client, media_type: str) -> None:
    headers = {"Content-Type": media_type}
    body = b'{"ttl": 900, "holder": "h"}'
    problem(http.post("/v1/sessions", content=body, headers=headers), 415, "unsupported-media-type")
    problem(api.call("POST", "/epoch", content=b'{"wait": 0}', headers=headers), 415, "unsupported-media-type")
    assert api.current().json()["epoch"] == 0


def test_json_says_that_it_is_json(api: Api, http: httpx.Client) -> None:
    """What says nothing of its type, any web page may send; one call's body may be left out."""
    problem(http.post("/v1/sessions", content=b'{"ttl": 900}'), 415, "unsupported-media-type")
    problem(http.post("/v1/sessions", content=iter([b'{"ttl": 900}'])), 415, "unsupported-media-type")
    problem(http.post("/v1/sessions"), 415, "unsupported-media-type")
    problem(api.call("POST", "/epoch", content=b'{"wait": 0}'), 415, "unsupported-media-type")
    problem(api.call("POST", "/uploads", content=b"{}"), 415, "unsupported-media-type")
    assert api.call("POST", "/epoch").status_code == 200


@pytest.mark.parametrize("media_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_media_types_that_are_json(http: httpx.Client, media_type: str) -> None:
    body = b'{"ttl": 900, "holder": "h"}'
    assert http.post("/v1/sessions", content=body, headers={"Content-Type": media_type}).status_code == 201


# -- what this deployment cannot do ------------------------------------------------------------------------------------


def test_uploads_are_not_supported_where_blobs_cannot_sign(api: Api) -> None:
    reference = {"upload": "u-1", "size": 5, "sha256": "0" * 64}
    upload = {"Content-Type": "application/vnd.milepost.upload+json"}
    version = api.added("a")["version"]
    before = api.everything()
    problem(api.call("POST", "/uploads", json={"size": 5, "sha256": "0" * 64}), 501, "not-supported")
    problem(api.call("POST", "/handles/b", json=reference, headers=upload), 404, "upload-unknown")
    sent = {**upload, "If-Match": f'"{version}"'}
    problem(api.call("PUT", "/handles/a", json=reference, headers=sent), 404, "upload-unknown")
    assert api.everything() == before

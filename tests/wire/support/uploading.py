"""Uploads as a client would write them from the wire's description alone, and what lies in the bucket behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from testbed.seaweedfs import S3Endpoint
from tests.wire.support.api import Api, Json

REFERENCE = {"Content-Type": "application/vnd.milepost.upload+json"}


def announcement(content: bytes) -> Json:
    """What is said of the bytes before they are put."""
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def announced(api: Api, content: bytes) -> Json:
    """An upload that was announced just now."""
    response = api.call("POST", "/uploads", json=announcement(content))
    assert response.status_code == 201, response.text
    upload: Json = response.json()
    return upload


def put(upload: Mapping[str, Any], content: bytes) -> httpx.Response:
    """Send the request that the service has signed."""
    with httpx.Client(trust_env=False, verify=False, timeout=30.0) as client:
        return client.request(upload["method"], upload["url"], headers=upload["headers"], content=content)


def uploaded(api: Api, content: bytes) -> Json:
    """The reference of an upload whose bytes were put."""
    upload = announced(api, content)
    response = put(upload, content)
    assert response.status_code == 200, response.text
    return reference(upload, content)


def reference(upload: Mapping[str, Any], content: bytes) -> Json:
    """What add and replace take in place of the bytes."""
    return {"upload": upload["upload"], **announcement(content)}


def add(api: Api, name: str, reference: Json, **headers: str) -> httpx.Response:
    """addAndLock with the reference of an upload."""
    return api.call("POST", f"/handles/{name}", json=reference, headers={**REFERENCE, **headers})


def replace(api: Api, name: str, version: str, reference: Json) -> httpx.Response:
    """replace with the reference of an upload."""
    return api.call("PUT", f"/handles/{name}", json=reference, headers={**REFERENCE, "If-Match": f'"{version}"'})


def place_of(url: str) -> tuple[str, str]:
    """Bucket and key of a signed URL of the path style."""
    bucket, _, key = unquote(urlsplit(url).path).lstrip("/").partition("/")
    return bucket, key


@contextmanager
def behind(server: S3Endpoint) -> Iterator[Any]:
    """A plain S3 client, for what happens behind the service's back."""
    client = server.client()
    try:
        yield client
    finally:
        client.close()

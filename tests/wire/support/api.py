"""Requests as a client would write them from the wire's description alone: httpx, headers and paths, no SDK."""

from __future__ import annotations

import hashlib
import itertools
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from testbed.server import DEADLINE_SECONDS

PROBLEM = "application/problem+json"
LONG_TTL = 3600
_NUMBERS = itertools.count(1)

Json = dict[str, Any]


def unique(prefix: str) -> str:
    """A name that nobody in this run has used."""
    return f"{prefix}-{next(_NUMBERS)}"


def connect(url: str, timeout: float = 30.0) -> httpx.Client:
    """A client of plain HTTP that follows no redirect, heeds no proxy and loads no certificates."""
    return httpx.Client(base_url=url, trust_env=False, verify=False, timeout=timeout)


def digest(content: bytes) -> str:
    """The RFC 9530 form of a SHA-256."""
    return f"sha-256=:{b64encode(hashlib.sha256(content).digest()).decode()}:"


def problem(response: httpx.Response, status: int, code: str, outcome: str = "not_applied") -> Json:
    """The problem document of an answer, which must be this one and whole."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    document: Json = response.json()
    assert document["type"] == f"urn:milepost:{code}", document
    assert document["status"] == status
    assert document["outcome"] == outcome, document
    assert type(document["retryable"]) is bool
    assert document["title"]
    assert type(document["detail"]) is str
    assert "Traceback" not in response.text
    assert int(response.headers["milepost-term"]) >= 0
    assert response.headers["x-request-id"]
    if status in (429, 503):
        assert int(response.headers["retry-after"]) >= 0
    return document


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until ``holds()``."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.05)


@dataclass(frozen=True)
class Api:
    """One session on one store of one server. Every call gives httpx's response as it came."""

    http: httpx.Client
    store: str
    session: str | None
    epoch: int | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def on(cls, http: httpx.Client, store: str, holder: str = "test") -> Api:
        """With a new session that lives longer than any test."""
        return cls(http, store, open_session(http, LONG_TTL, holder))

    def other(self, holder: str = "other", **described: object) -> Api:
        """Another session on the same store."""
        return replace(self, session=open_session(self.http, LONG_TTL, holder, **described), epoch=None)

    def under(self, epoch: int | None) -> Api:
        """The same session, writing under an epoch."""
        return replace(self, epoch=epoch)

    def with_headers(self, headers: Mapping[str, str]) -> Api:
        """The same, with these headers on each call."""
        return replace(self, extra={**self.extra, **headers})

    def keyed(self, key: str, attempt: int | None = None) -> Api:
        """The same, with an idempotency key on each call."""
        attempts = {} if attempt is None else {"Milepost-Attempt": str(attempt)}
        return self.with_headers({"Idempotency-Key": key, **attempts})

    def call(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | Iterable[bytes] | None = None,
        json: Any = None,
        params: Mapping[str, str | int] | None = None,
    ) -> httpx.Response:
        """Any call below the store."""
        sent = {**self._own_headers(), **self.extra, **(headers or {})}
        url = f"/v1/stores/{self.store}{path}"
        return self.http.request(method, url, headers=sent, content=content, json=json, params=params)

    def add(self, name: str, content: bytes | Iterable[bytes] = b"state", **headers: str) -> httpx.Response:
        return self.call("POST", f"/handles/{name}", content=content, headers=_dashed(headers))

    def replace(
        self, name: str, version: str, content: bytes | Iterable[bytes] = b"newer", **headers: str
    ) -> httpx.Response:
        sent = {"If-Match": f'"{version}"', **_dashed(headers)}
        return self.call("PUT", f"/handles/{name}", content=content, headers=sent)

    def exists(self, name: str) -> httpx.Response:
        return self.call("HEAD", f"/handles/{name}")

    def get(self, name: str) -> httpx.Response:
        return self.call("GET", f"/handles/{name}")

    def lock(self, name: str) -> httpx.Response:
        return self.call("POST", f"/handles/{name}/lock")

    def release(self, name: str) -> httpx.Response:
        return self.call("DELETE", f"/handles/{name}/lock")

    def state(self, name: str, **headers: str) -> httpx.Response:
        return self.call("GET", f"/handles/{name}/state", headers=_dashed(headers))

    def remove(self, name: str, **headers: str) -> httpx.Response:
        return self.call("DELETE", f"/handles/{name}", headers=_dashed(headers))

    def handles(self, **params: str | int) -> httpx.Response:
        return self.call("GET", "/handles", params=params)

    def clear(self) -> httpx.Response:
        return self.call("DELETE", "/handles")

    def lock_all(self) -> httpx.Response:
        return self.call("POST", "/locks")

    def release_all(self) -> httpx.Response:
        return self.call("DELETE", "/locks")

    def campaign(self, wait: float | None = None) -> httpx.Response:
        return self.call("POST", "/epoch", json={} if wait is None else {"wait": wait})

    def current(self) -> httpx.Response:
        return self.call("GET", "/epoch")

    def resign(self) -> httpx.Response:
        return self.call("DELETE", "/epoch")

    def drop(self) -> httpx.Response:
        """Drop the job that has the store."""
        headers = {**self._own_headers(), **self.extra}
        return self.http.request("DELETE", f"/v1/jobs/{self.store}", headers=headers)

    def added(self, name: str, content: bytes = b"state", **headers: str) -> Json:
        """The record of a handle that was added just now."""
        response = self.add(name, content, **headers)
        assert response.status_code == 201, response.text
        record: Json = response.json()
        return record

    def granted(self) -> int:
        """The epoch that was granted just now."""
        response = self.campaign()
        assert response.status_code == 200, response.text
        epoch: int = response.json()["epoch"]
        return epoch

    def everything(self) -> Json:
        """All that can be seen of the store and the session; two of these are compared.

        The revision is not among it: it is the whole service's, and sessions of other tests end meanwhile. Where the
        server is a test's own, `revision` is compared as well.
        """
        listing = self.handles()
        assert listing.status_code == 200, listing.text
        session = self.http.get(f"/v1/sessions/{self.session}")
        return {
            "handles": listing.json(),
            "epoch": self.current().json(),
            "session": {**session.json(), "expires_in": None},
        }

    def revision(self) -> int:
        """The service's revision, which every change of any store or session raises."""
        return int(self.handles().headers["milepost-revision"])

    def _own_headers(self) -> dict[str, str]:
        session = {} if self.session is None else {"Milepost-Session": self.session}
        return session if self.epoch is None else {**session, "Milepost-Epoch": str(self.epoch)}


def open_session(http: httpx.Client, ttl: float, holder: str = "test", **described: object) -> str:
    """A new session's id."""
    response = http.post("/v1/sessions", json={"ttl": ttl, "holder": holder, **described})
    assert response.status_code == 201, response.text
    session: str = response.json()["session"]
    return session


def _dashed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}

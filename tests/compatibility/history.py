"""A history that leaves every kind of record behind, written and looked at through REST alone, so that any version can.

Nothing here imports the service: the module is run with the version that is to be recorded, and with the present one.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import Any

import httpx

Json = dict[str, Any]

_STORES = ("cleared", "flights", "wholly-locked")
_SESSIONS = ("a", "b")
_TTL = 3600
RETRIED = "the-first-add"
"""The idempotency key of an add whose answer is kept, in the store ``flights``."""


class Teller:
    """Tells a history to a service that leads, and asks what became of it."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def write(self, *, uploads: bool) -> None:
        """Write the history. ``uploads``: the blob store can sign URLs, so that an upload can be announced."""
        for session in (*_SESSIONS, "ended"):
            self._ask("POST", "/v1/sessions", json={"session": session, "ttl": _TTL, "holder": f"driver {session}"})
        self._ask("DELETE", "/v1/sessions/ended")
        self._ask("POST", "/v1/stores/flights/epoch", session="a", json={})
        self._ask("DELETE", "/v1/stores/flights/epoch", session="a")
        self._ask("POST", "/v1/stores/flights/epoch", session="b", json={})
        self.add_first(attempt=1)
        version = self._add("flights", "latest", b"first", epoch=2, labels={"job": "7"})
        self._ask(
            "PUT",
            "/v1/stores/flights/handles/latest",
            content=b"second",
            session="b",
            headers={"Milepost-Epoch": "2", "If-Match": f'"{version}"', "Milepost-Label-job": "8"},
        )
        self._ask("POST", "/v1/stores/flights/handles/latest/lock", session="a")
        self._add("flights", "empty", b"", epoch=2)
        self._add("flights", "removed", b"gone by now", epoch=2)
        self._ask("DELETE", "/v1/stores/flights/handles/removed", session="b", headers={"Milepost-Epoch": "2"})
        for name in ("x", "y"):
            self._add("cleared", name, b"cleared away")
        self._ask("DELETE", "/v1/stores/cleared/handles", session="b")
        self._add("cleared", "after", b"added after the clear")
        for number in range(4):
            self._add("wholly-locked", f"n{number}", b"one of many " * number)
        self._ask("POST", "/v1/stores/wholly-locked/locks", session="a")
        self._ask("DELETE", "/v1/stores/wholly-locked/handles/n0/lock", session="a")
        if uploads:
            content = b"put later"
            body = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            self._ask("POST", "/v1/stores/flights/uploads", session="b", json=body)

    def add_first(self, attempt: int) -> httpx.Response:
        """Add the handle whose answer is kept under `RETRIED`, for the ``attempt``-th time."""
        headers = {"Milepost-Epoch": "2", "Idempotency-Key": RETRIED, "Milepost-Attempt": str(attempt)}
        return self._ask("POST", "/v1/stores/flights/handles/first", content=b"the first", session="b", headers=headers)

    def observe(self) -> Json:
        """Return all that a client can see of the history, but for what depends on the time."""
        stores = self._ask("GET", "/v1/stores").json()["stores"]
        seen: Json = {"stores": [{key: each[key] for key in ("store", "handles", "epoch")} for each in stores]}
        for store in _STORES:
            handles = self._ask("GET", f"/v1/stores/{store}/handles").json()
            states = {
                handle["name"]: b64encode(
                    self._ask("GET", f"/v1/stores/{store}/handles/{handle['name']}/state").content
                ).decode()
                for handle in handles["handles"]
            }
            epoch = self._ask("GET", f"/v1/stores/{store}/epoch").json()
            assert epoch.pop("wish", None) is None  # what was stored before has none, and did not say so
            seen[store] = {"handles": handles, "states": states, "epoch": epoch}
        for session in _SESSIONS:
            found = self._ask("GET", f"/v1/sessions/{session}").json()
            del found["expires_in"]
            seen[f"session {session}"] = found
        seen["session ended"] = self._http.get("/v1/sessions/ended").status_code
        return seen

    def _add(
        self, store: str, name: str, state: bytes, epoch: int | None = None, labels: dict[str, str] | None = None
    ) -> str:
        headers = {f"Milepost-Label-{key}": value for key, value in (labels or {}).items()}
        if epoch is not None:
            headers["Milepost-Epoch"] = str(epoch)
        path = f"/v1/stores/{store}/handles/{name}"
        version: str = self._ask("POST", path, content=state, session="b", headers=headers).json()["version"]
        return version

    def _ask(
        self, method: str, path: str, *, session: str | None = None, headers: dict[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        carried = dict(headers or {})
        if session is not None:
            carried["Milepost-Session"] = session
        if "content" in more:
            carried["Content-Type"] = "application/octet-stream"
        response = self._http.request(method, path, headers=carried, **more)
        assert response.is_success, (method, path, response.status_code, response.text)
        return response

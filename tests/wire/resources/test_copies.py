"""A clone that adds a handle, and a drop of a job: what the calls answer, and what they refuse before they write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx

from tests.support.servers.replicas import PROMPT
from tests.wire.resources.test_rollbacks import BELOW, LARGE, MOST, SMALL, Job, base64
from tests.wire.support.api import Api, problem
from tests.wire.support.in_process import in_process


def test_a_clone_comes_with_its_handle_or_not_at_all_and_a_drop_takes_both(tmp_path: Path) -> None:
    with in_process(tmp_path, replace(PROMPT, inline_below=BELOW)) as here:
        job = Job.on(here)
        copy = Api.on(here.http, "copy")
        copy = copy.under(copy.granted())
        path = "checkpoint/commits/0"

        def cloned(api: Api = copy, **members: object) -> httpx.Response:
            body = {"source": "flights", "snapshot": f"@{job.revision}", **members}
            return api.call("POST", "/tree/clone", json=body)

        revision = copy.revision()
        add = {"name": "job", "state": base64(LARGE)}
        assert str(MOST) in problem(cloned(add={**add, "state": base64(bytes(MOST + 1))}), 413, "too-large")["detail"]
        problem(cloned(files={path: base64(bytes(MOST)), "other": base64(b"1")}), 413, "too-large")
        problem(cloned(files={f"{number}": "" for number in range(5)}), 422, "invalid-request")
        problem(cloned(files={"no such file": ""}), 404, "not-exist")
        problem(cloned(files={"../up": ""}), 422, "invalid-request")
        problem(cloned(files={path: "aGk"}), 422, "invalid-request")
        problem(cloned(files=[path]), 422, "invalid-request")
        wrong: tuple[object, ...] = (None, [], {"name": "job"}, {**add, "version": "v"}, {**add, "labels": None})
        for member in wrong:
            problem(cloned(add=member), 422, "invalid-request")
        problem(cloned(add={**add, "name": "a/b"}), 422, "invalid-name")
        problem(cloned(copy.under(7), add=add), 409, "fenced")
        problem(cloned(replace(copy, session="unknown"), add=add), 404, "session-unknown")
        assert copy.revision() == revision
        copy.added("job")
        problem(cloned(add=add), 409, "already-exists")
        assert copy.remove("job").json() == {"removed": True}

        done = cloned(copy.keyed("k", 1), add={**add, "labels": {"batch": "0"}}, files={path: base64(SMALL)})
        assert (done.status_code, done.json()["files"]) == (201, 1)
        assert (copy.get("job").json()["version"], copy.state("job").content) == (done.json()["version"], LARGE)
        assert copy.call("GET", f"/files/{path}").content == SMALL
        again = cloned(copy.keyed("k", 2), add={**add, "labels": {"batch": "0"}}, files={path: base64(SMALL)})
        assert (again.json(), again.headers["milepost-replayed"]) == (done.json(), "true")
        problem(cloned(copy.keyed("k", 2), add=add, files={path: base64(b"2")}), 422, "idempotency-mismatch")

        problem(copy.other().under(copy.epoch).drop(), 409, "fenced")
        problem(copy.under(7).drop(), 409, "fenced")
        gone = copy.keyed("d", 1).drop()
        assert (gone.status_code, gone.json()) == (200, {"handles": 1, "snapshots": 1})
        again = copy.keyed("d", 2).drop()
        assert (again.json(), again.headers["milepost-replayed"]) == (gone.json(), "true")
        assert copy.call("GET", f"/files/{path}").status_code == copy.get("job").status_code == 404
        listed = [here.http.get(f"/v1/jobs{query}").json()["jobs"] for query in ("", "?dropped=true")]
        assert [[(each["job"], each["state"]) for each in jobs] for jobs in listed] == [
            [("flights", "led")],
            [("copy", "dropped")],
        ]
        problem(here.http.get("/v1/jobs?dropped=yes"), 422, "invalid-request")
        assert copy.resign().status_code == 204
        assert cloned(copy.under(copy.granted())).status_code == 201

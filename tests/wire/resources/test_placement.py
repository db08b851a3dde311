"""``/v1/jobs/{store}/placement`` in a deployment that is no cell; tests/client/test_cells.py has cells."""

from __future__ import annotations

from typing import Any

from tests.wire.support.api import Api, problem


def test_a_deployment_that_is_no_cell_says_so_and_begins_no_job_by_that(api: Api) -> None:
    path = f"/v1/jobs/{api.store}/placement"
    nowhere: dict[str, Any] = {"job": api.store, "cell": None, "cells": [], "placement": "none"}
    nowhere |= {"other": None, "epoch": None, "seal": None}
    assert api.http.get(path).json() == nowhere
    problem(api.http.put(path, json={"cells": "fa5c1d4f2c9b0e37"}), 409, "cells-differ")
    assert api.http.get(path).json() == nowhere
    api.granted()
    assert api.http.get(path).json() == {**nowhere, "placement": "here"}
    assert api.http.put(path, json={"cells": "fa5c1d4f2c9b0e37"}).json() == {**nowhere, "placement": "here"}


def test_a_request_that_says_no_digest_is_refused(api: Api) -> None:
    for body in ({}, {"cells": 1}, {"cells": "x", "more": 1}):
        problem(api.http.put(f"/v1/jobs/{api.store}/placement", json=body), 422, "invalid-request")

"""The OpenAPI page says what the wire says: the same paths, headers, status codes and problem codes."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from tests.wire.support import facts
from tests.wire.support.api import PROBLEM, Api, Json, unique
from tests.wire.support.facts import CALLS, CODES, Call
from tests.wire.support.shapes import example_of, same_shape

UNDER_V1 = [call for call in CALLS if call.path.startswith("/v1/")]


@pytest.fixture(scope="module")
def page(http: httpx.Client) -> Json:
    response = http.get("/openapi.json")
    assert response.status_code == 200
    page_json: Json = response.json()
    assert page_json["openapi"].startswith("3.")
    return page_json


def operation(page: Json, call: Call) -> Json:
    described: Json = page["paths"][call.path][call.method.lower()]
    return described


def parameters(operation: Json, place: str) -> dict[str, Json]:
    return {each["name"]: each for each in operation.get("parameters", []) if each["in"] == place}


def codes_of(operation: Json) -> dict[str, int]:
    """Problem codes and the status that each is shown with."""
    return {
        code: int(status)
        for status, response in operation["responses"].items()
        for code in response.get("content", {}).get(PROBLEM, {}).get("examples", {})
    }


each_call = pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
each_call_under_v1 = pytest.mark.parametrize("call", UNDER_V1, ids=lambda call: f"{call.method} {call.path}")


def test_the_page_is_for_people_too(http: httpx.Client) -> None:
    response = http.get("/docs")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    used = re.findall(r"""(?:src|href|url)(?:=|: )["']([^"']+)["']""", response.text)
    assert "openapi.json" in used
    assert any(link.endswith(".js") for link in used)
    for link in used:
        assert http.get(urljoin("/docs", link)).status_code == 200, link


def test_the_same_calls(page: Json) -> None:
    documented = {(method.upper(), path) for path, operations in page["paths"].items() for method in operations}
    assert documented == {(call.method, call.path) for call in CALLS}


@each_call
def test_the_same_answers_that_are_no_problems(page: Json, call: Call) -> None:
    documented = {
        int(status) for status, response in operation(page, call)["responses"].items() if not problem_only(response)
    }
    assert documented == call.statuses


def problem_only(response: Json) -> bool:
    return PROBLEM in response.get("content", {})


@each_call
def test_the_same_problems(page: Json, call: Call) -> None:
    assert codes_of(operation(page, call)) == {code: CODES[code] for code in call.codes}


def test_every_code_is_documented_for_a_call_or_for_what_is_no_call(page: Json) -> None:
    of_calls = {code for call in CALLS for code in codes_of(operation(page, call))}
    beside = set(re.findall(r"\d{3} `([a-z-]+)`", page["info"]["description"]))
    of_no_call = beside - of_calls
    assert of_no_call == facts.OF_NO_CALL
    assert of_calls | of_no_call == CODES.keys()
    for code, status in CODES.items():
        assert code not in of_no_call or f"{status} `{code}`" in page["info"]["description"]


@each_call
def test_the_same_request_headers(page: Json, call: Call) -> None:
    documented = parameters(operation(page, call), "header")
    assert documented.keys() - {"X-Request-Id"} == set(call.operation.takes)
    assert {name for name, each in documented.items() if each["required"]} == call.requires


@each_call
def test_the_same_query(page: Json, call: Call) -> None:
    documented = parameters(operation(page, call), "query")
    assert documented.keys() == set(call.query)
    assert {name for name, each in documented.items() if each.get("required")} == set(call.needs)


@each_call
def test_the_same_answer_headers(page: Json, call: Call) -> None:
    for status, response in operation(page, call)["responses"].items():
        assert set(response["headers"]) == call.gives_with(int(status)), status


def test_every_header_is_documented_and_no_other(page: Json) -> None:
    documented: set[str] = set()
    for call in CALLS:
        documented |= parameters(operation(page, call), "header").keys()
        for response in operation(page, call)["responses"].values():
            documented |= response.get("headers", {}).keys()
    assert documented == facts.HEADERS | facts.OF_HTTP


def test_calls_have_names_of_their_own_and_one_group_each(page: Json) -> None:
    """Generators make a function of each name, and a file of each group."""
    operations = [operation(page, call) for call in CALLS]
    names = [each["operationId"] for each in operations]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", name)] == []
    assert [name for name, each in zip(names, operations, strict=True) if len(each["tags"]) != 1] == []


@each_call
def test_names_and_conditions_have_patterns_and_headers_real_names(page: Json, call: Call) -> None:
    documented = operation(page, call)["parameters"]
    assert [each["name"] for each in documented if not re.fullmatch(r"[A-Za-z-]+", each["name"])] == []
    patterns = {each["name"]: each["schema"].get("pattern", "") for each in documented}
    for name in patterns.keys() & {"store", "name", "session", "Milepost-Session"}:
        assert re.search(patterns[name], "flights-driver_1.0")
        assert not re.search(patterns[name], "../x")
    if "If-Match" in patterns:
        assert re.search(patterns["If-Match"], '"5f0c1e9ab3d2.42"')
        for refused in ("*", 'W/"1"', "5f0c", '"a", "b"'):
            assert not re.search(patterns["If-Match"], refused), refused


@each_call
def test_what_a_call_answers_has_a_shape_with_a_name(page: Json, call: Call) -> None:
    schemas = page["components"]["schemas"]
    for status, response in operation(page, call)["responses"].items():
        for media_type, content in response.get("content", {}).items():
            if media_type in ("application/json", PROBLEM):
                examples = [content["example"]] if "example" in content else []
                examples += [each["value"] for each in content.get("examples", {}).values()]
                assert examples, status
                assert content["schema"]["$ref"].startswith("#/components/schemas/")
                for example in examples:
                    fits(example, content["schema"], schemas)


def test_numbers_with_fractions_keep_their_digits(page: Json) -> None:
    """Without a format a generator may take 32 bits for enough."""
    asked = [page["paths"][path]["post"]["requestBody"]["content"] for path in ("/v1/sessions", facts.STORE + "/epoch")]
    shapes = [content["application/json"]["schema"] for content in asked] + list(page["components"]["schemas"].values())
    numbers = [each for shape in shapes for each in shape["properties"].values() if each.get("type") == "number"]
    assert len(numbers) >= 7
    assert {each.get("format") for each in numbers} == {"double"}


def test_a_watch_is_answered_by_a_stream_of_events(page: Json) -> None:
    documented = page["paths"][facts.STORE + "/events"]["get"]["responses"]["200"]
    assert set(documented["content"]) == {"text/event-stream"}


@each_call
def test_a_token_is_documented_where_one_may_be_asked_for(page: Json, call: Call) -> None:
    ((name, scheme),) = page["components"]["securitySchemes"].items()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    asked: list[Json] | None = [{name: []}, {}] if call.guarded else None
    assert operation(page, call).get("security") == asked


def fits(value: Any, shape: Json, schemas: Json) -> None:
    """As far as this page's shapes go."""
    if "$ref" in shape:
        shape = schemas[shape["$ref"].removeprefix("#/components/schemas/")]
    if value is None:
        assert shape.get("nullable")
    elif shape["type"] == "object":
        assert isinstance(value, dict)
        assert set(shape.get("required", ())) <= value.keys()
        if shape.keys() != {"type"}:  # else its members depend on what is stored
            for name, member in value.items():
                fits(member, shape.get("properties", {}).get(name) or shape["additionalProperties"], schemas)
    elif shape["type"] == "array":
        for member in value:
            fits(member, shape["items"], schemas)
    else:
        conforms({"": value}, {"properties": {"": shape}})


@each_call_under_v1
def test_problem_examples_are_whole(page: Json, call: Call) -> None:
    schema = page["components"]["schemas"]["Problem"]
    for status, response in operation(page, call)["responses"].items():
        for code, example in response.get("content", {}).get(PROBLEM, {}).get("examples", {}).items():
            value = example["value"]
            assert response["content"][PROBLEM]["schema"] == {"$ref": "#/components/schemas/Problem"}
            conforms(value, schema)
            assert (value["type"], value["status"]) == (f"urn:milepost:{code}", int(status))
            assert value["outcome"] == facts.OUTCOMES.get(code, "unknown" if code == "internal" else "not_applied")


def test_body_examples_validate_and_are_taken(page: Json, api: Api) -> None:
    for path in ("/v1/sessions", "/v1/stores/{store}/epoch", "/v1/stores/{store}/uploads", facts.JOB + "/history"):
        body = page["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        conforms(body["example"], body["schema"])
    bodies = {path: page["paths"][path]["post"]["requestBody"] for path in ("/v1/sessions", facts.STORE + "/epoch")}
    session = {**bodies["/v1/sessions"]["content"]["application/json"]["example"], "session": unique("example")}
    assert api.http.post("/v1/sessions", json=session).status_code == 201
    campaign = bodies[facts.STORE + "/epoch"]["content"]["application/json"]["example"]
    assert api.call("POST", "/epoch", json=campaign).status_code == 200


def led_and_waited_for(api: Api) -> httpx.Response:
    """The description of a job with a driver, a standby, a savepoint, a rollback and a batch that is begun."""
    process = {"host": "spark-1", "pid": 4711, "application": "app-7", "ui": "http://spark-1:4040"}
    job = replace(api, store=f"{api.store}-job").other("driver-1", process=process)
    job = job.under(job.granted())
    for batch in range(2):
        assert job.call("PUT", f"/files/checkpoint/commits/{batch}", content=b"v1").status_code == 201
    rows = {"directory": "checkpoint", "batches": [{"batch": 1, "input_rows": 1200}]}
    report = partial(api.http.post, f"/v1/jobs/{job.store}/rows", json=rows)
    acting = {"Milepost-Session": str(job.session), "Milepost-Epoch": str(job.epoch)}
    assert [report(headers=acting).json() for _ in range(2)] == [{"entered": 1}, {"entered": 0}]
    assert report(headers={**acting, "Milepost-Epoch": "2"}).json()["type"].endswith("fenced")
    first, _ = job.call("GET", "/tree").json()["snapshots"]
    assert job.call("POST", "/tree/rollback", json={"revision": first["revision"]}).status_code == 200
    assert job.call("PUT", "/tree/savepoints/before-upgrade").status_code == 200
    told = api.http.get(f"/v1/jobs/{job.store}/history").json()
    assert [each["kind"] for each in told["entries"]] == [
        "savepoint-made",
        "rolled-back",
        "batch-committed",
        "batch-committed",
        "epoch-granted",
    ]
    assert job.call("PUT", "/files/checkpoint/offsets/1", content=b"v1").status_code == 201
    wish = {"who": "anna", "reason": "drain", "force": True}
    asked = partial(api.http.post, f"/v1/jobs/{job.store}/hand-over", json=wish)
    assert asked().json()["wish"]["who"] == "anna"
    standby = job.other("driver-2", process={**process, "host": "spark-2"})
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(standby.campaign, wait=60)
        described = api.http.get(f"/v1/jobs/{job.store}")
        while not described.json()["standbys"]:
            assert not waiting.done()
            described = api.http.get(f"/v1/jobs/{job.store}")
        job.call("DELETE", "/epoch")
        waiting.result(60)
    assert asked().json()["wish"]["epoch"] == 2
    return described


def test_answer_examples_have_the_shape_of_real_answers(page: Json, api: Api) -> None:
    """Those of listings with damaged records are compared in test_damaged_records.py."""
    api = api.with_headers({"Milepost-Label-batch": "7"})
    writer, other = api.under(api.granted()), api.other()
    replace(writer, store=f"{api.store}-2").under(None).added("a")
    writer.added("a")
    writer.added("kept")
    other.lock("kept")
    wished = replace(writer, store=f"{api.store}-3")
    wished.granted()
    wish = {"who": "anna", "reason": "drain", "force": True}
    assert api.http.post(f"/v1/jobs/{wished.store}/hand-over", json=wish).status_code == 200
    real = {
        ("POST", facts.HANDLE): writer.add("b"),
        ("GET", facts.HANDLE): writer.get("a"),
        ("PUT", facts.HANDLE): writer.replace("a", writer.get("a").json()["version"]),
        ("POST", facts.HANDLE + "/lock"): writer.lock("a"),
        ("DELETE", facts.HANDLE): writer.remove("kept"),
        ("POST", facts.STORE + "/epoch"): writer.campaign(),
        ("GET", facts.STORE + "/epoch"): wished.current(),
        ("GET", facts.JOB): led_and_waited_for(api),
        ("POST", "/v1/sessions"): api.http.post("/v1/sessions", json={"ttl": 900, "holder": "h"}),
        ("GET", facts.SESSION): api.http.get(f"/v1/sessions/{other.session}"),
        ("POST", facts.SESSION + "/keepalive"): api.http.post(f"/v1/sessions/{api.session}/keepalive"),
        ("DELETE", facts.STORE + "/handles"): writer.clear(),
    }
    without = {"by", "savepoint"}  # there are no tokens, and a hand-over makes no savepoint
    for (method, path), response in real.items():
        example = example_of(page, method, path, response.status_code)
        same_shape(example, response.json(), f"{method} {path}", null=without if "wish" in example else ())
        content = page["paths"][path][method.lower()]["responses"][str(response.status_code)]["content"]
        fits(response.json(), content["application/json"]["schema"], page["components"]["schemas"])
    path = facts.JOB + "/history"
    history = api.http.get(path.format(store=f"{api.store}-job")).json()
    content = page["paths"][path]["get"]["responses"]["200"]["content"]
    fits(history, content["application/json"]["schema"], page["components"]["schemas"])
    for example in example_of(page, "GET", path, 200)["entries"]:
        entry = next(each for each in history["entries"] if each["kind"] == example["kind"])
        same_shape(example, entry, path)
    for path, kind, name, id_ in (
        ("/v1/stores", "stores", "store", api.store),
        ("/v1/jobs", "jobs", "job", f"{api.store}-job"),
        ("/v1/sessions", "sessions", "session", api.session),
    ):
        told = api.http.get(path).json()
        content = page["paths"][path]["get"]["responses"]["200"]["content"]
        fits(told, content["application/json"]["schema"], page["components"]["schemas"])
        (row,) = [row for row in told[kind] if row[name] == id_]
        same_shape(
            example_of(page, "GET", path, 200)[kind][0],
            row,
            path,
            null={"stores": {"snapshot"}, "jobs": without}.get(kind, ()),
        )
    status = api.http.get("/v1/status").json()
    fits(status, {"$ref": "#/components/schemas/Status"}, page["components"]["schemas"])
    same_shape(example_of(page, "GET", "/v1/status", 200), status, "status", null={"lease_remaining", "cell", "cells"})
    me = api.http.get("/v1/whoami").json()
    fits(me, {"$ref": "#/components/schemas/Principal"}, page["components"]["schemas"])
    same_shape(example_of(page, "GET", "/v1/whoami", 200), me, "whoami", null={"name"})


def conforms(value: Any, schema: Json) -> None:
    """As far as this page's schemas go: objects with members of simple types and bounds."""
    assert isinstance(value, dict)
    assert set(schema.get("required", ())) <= value.keys()
    if schema.get("additionalProperties") is False:
        assert value.keys() <= schema["properties"].keys()
    kinds: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    for name, member in value.items():
        allowed = schema["properties"].get(name, {})
        if allowed.get("type") == "object":
            conforms(member, allowed)
            continue
        if isinstance(member, list):
            for each in member:
                conforms(each, allowed["items"])
            continue
        assert isinstance(member, kinds[allowed["type"]]), name
        assert member in allowed.get("enum", [member])
        if "pattern" in allowed:
            assert re.search(allowed["pattern"], str(member)), name
        if "minimum" in allowed:
            assert allowed["minimum"] <= member <= allowed.get("maximum", member)

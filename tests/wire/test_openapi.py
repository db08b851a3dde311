"""The OpenAPI page says what the wire says: the same paths, headers, status codes and problem codes."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from tests.wire import facts
from tests.wire.api import PROBLEM, Api, Json, unique
from tests.wire.facts import CALLS, CODES, Call

UNDER_V1 = [call for call in CALLS if call.path.startswith("/v1/")]


@pytest.fixture(scope="module")
def page(http: httpx.Client) -> Json:
    response = http.get("/openapi.json")
    assert response.status_code == 200
    told: Json = response.json()
    assert told["openapi"].startswith("3.")
    return told


def operation(page: Json, call: Call) -> Json:
    told: Json = page["paths"][call.path][call.method.lower()]
    return told


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
    told = {(method.upper(), path) for path, operations in page["paths"].items() for method in operations}
    assert told == {(call.method, call.path) for call in CALLS}


@each_call
def test_the_same_success(page: Json, call: Call) -> None:
    told = {
        int(status) for status, response in operation(page, call)["responses"].items() if not problem_only(response)
    }
    assert told - {307} == set(call.success) - {307}


def problem_only(response: Json) -> bool:
    return PROBLEM in response.get("content", {})


@each_call
def test_the_refusals_that_its_row_names(page: Json, call: Call) -> None:
    told = codes_of(operation(page, call))
    assert set(call.refusals) <= told.keys()


def test_the_same_codes_with_the_same_status(page: Json) -> None:
    told: dict[str, set[int]] = {}
    for call in CALLS:
        for code, status in codes_of(operation(page, call)).items():
            told.setdefault(code, set()).add(status)
    assert told == {code: {status} for code, status in CODES.items() if code != "no-route"}


@each_call_under_v1
def test_what_may_happen_to_every_call(page: Json, call: Call) -> None:
    told = operation(page, call)
    assert {"unauthenticated", "internal"} <= codes_of(told).keys()
    if call.path != "/v1/status":
        assert "no-leader" in codes_of(told)
        assert "Location" in told["responses"]["307"]["headers"]
    if "{" in call.path:
        assert "invalid-name" in codes_of(told)
    if call.method in ("POST", "PUT", "DELETE"):
        assert "forbidden" in codes_of(told)


@each_call
def test_the_same_request_headers(page: Json, call: Call) -> None:
    told = parameters(operation(page, call), "header")
    assert told.keys() - {"X-Request-Id"} == set(call.takes)
    assert {name for name, each in told.items() if each["required"]} == set(call.requires)


@each_call
def test_the_same_query(page: Json, call: Call) -> None:
    told = parameters(operation(page, call), "query")
    assert told.keys() == set(call.query)
    assert not any(each.get("required") for each in told.values())


@each_call_under_v1
def test_the_same_answer_headers(page: Json, call: Call) -> None:
    always = {"Milepost-Term", "X-Request-Id", *(["Milepost-Revision"] if call.about_a_store else [])}
    for status, response in operation(page, call)["responses"].items():
        told = set(response.get("headers", {}))
        if status == "307":
            assert told >= {"Milepost-Term", "X-Request-Id", "Location"}
            continue
        assert told >= always, status
        if int(status) in facts.WITH_RETRY_AFTER:
            assert "Retry-After" in told, status
        if int(status) in call.success:
            assert set(call.gives) <= told, status


def test_every_header_of_the_wire_is_told(page: Json) -> None:
    told: set[str] = set()
    for call in CALLS:
        told |= parameters(operation(page, call), "header").keys()
        for response in operation(page, call)["responses"].values():
            told |= response.get("headers", {}).keys()
    assert told >= facts.HEADERS


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
    for path in ("/v1/sessions", "/v1/stores/{store}/epoch", "/v1/stores/{store}/uploads"):
        body = page["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        conforms(body["example"], body["schema"])
    bodies = {path: page["paths"][path]["post"]["requestBody"] for path in ("/v1/sessions", facts.STORE + "/epoch")}
    session = {**bodies["/v1/sessions"]["content"]["application/json"]["example"], "session": unique("example")}
    assert api.http.post("/v1/sessions", json=session).status_code == 201
    campaign = bodies[facts.STORE + "/epoch"]["content"]["application/json"]["example"]
    assert api.call("POST", "/epoch", json=campaign).status_code == 200


def test_answer_examples_have_the_shape_of_real_answers(page: Json, api: Api) -> None:
    api.added("a")
    api.added("kept")
    other = api.other()
    other.lock("kept")
    real = {
        ("POST", facts.HANDLE): api.with_headers({"Milepost-Label-batch": "7"}).add("b"),
        ("GET", facts.HANDLE): api.get("a"),
        ("PUT", facts.HANDLE): api.replace("a", api.get("a").json()["version"]),
        ("POST", facts.HANDLE + "/lock"): api.lock("a"),
        ("DELETE", facts.HANDLE): api.remove("kept"),
        ("GET", facts.STORE + "/handles"): api.handles(),
        ("POST", facts.STORE + "/locks"): api.lock_all(),
        ("POST", facts.STORE + "/epoch"): api.campaign(),
        ("GET", facts.STORE + "/epoch"): api.current(),
        ("DELETE", facts.STORE + "/handles"): api.under(1).clear(),
        ("GET", "/v1/stores"): api.http.get("/v1/stores", params={"limit": 1}),
        ("POST", "/v1/sessions"): api.http.post("/v1/sessions", json={"ttl": 60, "holder": "h"}),
        ("GET", facts.SESSION): api.http.get(f"/v1/sessions/{other.session}"),
        ("POST", facts.SESSION + "/keepalive"): api.http.post(f"/v1/sessions/{api.session}/keepalive"),
        ("GET", "/v1/status"): api.http.get("/v1/status"),
    }
    for (method, path), response in real.items():
        told = page["paths"][path][method.lower()]["responses"][str(response.status_code)]
        example = told["content"]["application/json"]["example"]
        assert same_shape(example, response.json()), (method, path, example, response.json())


def same_shape(example: Any, real: Any) -> bool:
    """The same members of the same types; null stands for anything, labels may be any."""
    if example is None or real is None:
        return True
    if isinstance(example, dict):
        if not isinstance(real, dict):
            return False
        return example.keys() == real.keys() and all(
            key == "labels" or same_shape(value, real[key]) for key, value in example.items()
        )
    if isinstance(example, list):
        return isinstance(real, list) and all(same_shape(example[0], each) for each in real if example)
    number = (int, float)
    return isinstance(real, number if isinstance(example, number) and type(example) is not bool else type(example))


def conforms(value: Any, schema: Json) -> None:
    """As far as this page's schemas go: objects with members of simple types and bounds."""
    assert isinstance(value, dict)
    assert set(schema.get("required", ())) <= value.keys()
    if schema.get("additionalProperties") is False:
        assert value.keys() <= schema["properties"].keys()
    kinds: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    for name, member in value.items():
        told = schema["properties"].get(name, {})
        assert isinstance(member, kinds[told["type"]]), name
        assert member in told.get("enum", [member])
        if "minimum" in told:
            assert told["minimum"] <= member <= told.get("maximum", member)

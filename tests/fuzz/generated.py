"""Requests that schemathesis makes of the served OpenAPI page: valid ones, invalid ones, and chains of them."""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis.errors import Flaky
from schemathesis import Case, GenerationMode, Response
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup

from tests.fuzz.budget import Budget
from tests.fuzz.verdicts import PROBLEM, Json, Page, Wrong

SECONDS_FOR_AN_ANSWER = 30.0
SESSION, IF_MATCH = "Milepost-Session", "If-Match"
_NAMES = ("a", "b", "c")
_CONFORMANCE = ("content_type_conformance", "response_headers_conformance", "response_schema_conformance")
_FILES = "/webhdfs/"
_STEP_DOWN = "/v1/step-down"
_EVENTS = ("/v1/stores/{store}/events", "/v1/jobs/{store}/events")
_PLACE, _NO_PLACE = "Last-Event-ID", "999999999999999999"
_OF_FILES = ("response_headers_conformance",)
"""Hadoop's client takes no Content-Type, and without one schemathesis can tell nothing of a body."""

_STEPS = 12
_BATCH = 25


@dataclass
class World:
    """What is known of the server: generated requests are about things that are there as often as not."""

    url: str
    page: Page
    sessions: list[str]
    versions: list[str]
    budget: Budget
    wrong: Wrong | None = None
    """The first answer that was wrong: tried once more, the same request may well be answered otherwise."""

    def ground(self, case: Case[Any], choice: random.Random) -> None:
        """Let a request, most of the time, be about one of few names, by a session that lives."""
        for parameter, known in (("store", _NAMES), ("name", _NAMES), ("session", self.sessions)):
            if parameter in (case.path_parameters or {}) and choice.random() < 0.8:
                case.path_parameters[parameter] = choice.choice(known)
        headers = case.headers
        if SESSION in headers and self.sessions and choice.random() < 0.8:
            headers[SESSION] = choice.choice(self.sessions)
        if IF_MATCH in headers and self.versions and choice.random() < 0.8:
            headers[IF_MATCH] = choice.choice(self.versions[-20:])
        if choice.random() < 0.8:
            headers.pop("Milepost-Epoch", None)
        body: Any = case.body
        if case.operation.path == _STEP_DOWN and _is_understood(body):
            case.body = body = {"term": 2**62}  # one that does not lead: the only server would be away for seconds
        if case.operation.path in _EVENTS and re.fullmatch(r"[0-9.]*", headers.get(_PLACE) or ""):
            headers[_PLACE] = (
                _NO_PLACE  # a place that does not come: a stream has no end, and nobody waits for one here
            )
        if isinstance(body, dict) and isinstance(body.get("wait"), int | float) and body["wait"] > 0:
            body["wait"] = min(body["wait"], 0.01)  # nobody has time for long polls here

    def learn(self, response: Response) -> None:
        """Remember what was answered."""
        if tags := response.headers.get("etag"):
            self.versions.append(tags[0])
        if response.status_code == 201 and str(response.request.url).endswith("/v1/sessions"):
            self.sessions.append(response.json()["session"])
            del self.sessions[:-5]


def _is_understood(body: Any) -> bool:
    """Whether a leader would step down for it: no body at all, or no more in it than a term."""
    if isinstance(body, dict):
        return not body.keys() - {"term"} and isinstance(body.get("term", 1), int)
    return not isinstance(body, list | str | int | float)


def with_links(document: Json) -> Json:
    """The page with links: a session that was opened acts in any call, and a version goes into If-Match."""
    paths: Json = document["paths"]
    links: dict[str, list[tuple[str, str]]] = {SESSION: [], IF_MATCH: []}
    for path, operations in paths.items():
        for method, operation in operations.items():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "header" and parameter["name"] in links:
                    links[parameter["name"]].append((path, method))
    sources = {SESSION: ("/v1/sessions", "post", "201", "$response.body#/session")}
    handle = "/v1/stores/{store}/handles/{name}"
    sources[IF_MATCH] = (handle, "post", "201", "$response.header.ETag")
    for header, (path, method, status, expression) in sources.items():
        answer = paths[path][method]["responses"][status]
        for number, (target, verb) in enumerate(links[header]):
            taken = {"path." + name: f"$request.path.{name}" for name in ("store", "name") if f"{{{name}}}" in path}
            reference = target.replace("~", "~0").replace("/", "~1")
            answer.setdefault("links", {})[f"{header}{number}"] = {
                "operationRef": f"#/paths/{reference}/{verb}",
                "parameters": {f"header.{header}": expression, **taken},
            }
    return document


def judged(world: World, case: Case[Any], http: requests.Session) -> Response:
    """Send a request and judge its answer. Raises `Wrong`, and keeps the first."""
    world.budget.take()
    try:
        response = _sent(world, case, http)
        _judge(world, case, response)
    except Wrong as wrong:
        world.wrong = world.wrong or wrong
        raise
    world.learn(response)
    return response


def _sent(world: World, case: Case[Any], http: requests.Session) -> Response:
    try:
        return case.call(base_url=world.url, session=http, timeout=SECONDS_FOR_AN_ANSWER)
    except requests.exceptions.InvalidHeader as error:
        raise hypothesis.errors.UnsatisfiedAssumption from error  # the client's own refusal, nothing was sent
    except requests.RequestException as error:
        raise Wrong(f"no answer: {error!r}: {case.as_curl_command()}") from error


def _judge(world: World, case: Case[Any], response: Response) -> None:
    """A problem must be a documented one, and another answer look as its documentation says. Raises `Wrong`."""
    method, path, status = case.operation.method.upper(), case.operation.path, response.status_code
    described = world.page.document["paths"][path][method.lower()]["responses"]
    known = {**world.page.beside, **world.page.codes(method, path)}
    try:
        if method == "HEAD" and status >= 400:
            if status not in known.values():
                raise Wrong(f"{status} is not documented")
        elif (response.headers.get("content-type") or [""])[0] == PROBLEM:
            world.page.judge_problem(status, response.content, known)
        elif str(status) not in described:
            raise Wrong(f"{status} is not documented: {response.content[:300]!r}")
        if path.startswith(_FILES):
            _judge_files(status, response, described)
        if str(status) in described:
            checks: Any = CHECKS.get_by_names(list(_OF_FILES if path.startswith(_FILES) else _CONFORMANCE))
            case.validate_response(response, checks=checks)
    except Wrong as wrong:
        raise Wrong(f"{wrong}: {case.as_curl_command()}") from wrong
    except FailureGroup as group:
        raise Wrong(f"{'; '.join(map(repr, group.exceptions))}: {case.as_curl_command()}") from group


def _judge_files(status: int, response: Response, described: Json) -> None:
    """An answer about files has no Content-Type unless it is bytes, and a refusal is a documented exception of Java's.

    Raises `Wrong`.
    """
    types = response.headers.get("content-type") or []
    if types not in ([], ["application/octet-stream"]):
        raise Wrong(f"{status} with the Content-Type {types}")
    if status >= 400 and str(status) in described:
        told = json.loads(response.content)["RemoteException"]
        if told["exception"] not in described[str(status)]["content"]["application/json"]["examples"]:
            raise Wrong(f"{status} with {told['exception']}, which is not documented")


@contextlib.contextmanager
def _client() -> Iterator[requests.Session]:
    with requests.Session() as http:
        http.trust_env = False
        http.max_redirects = 1
        yield http


def _settings(examples: int, steps: int = _STEPS) -> hypothesis.settings:
    return hypothesis.settings(
        max_examples=max(1, examples),
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
    )


def single(world: World, cases: int, seed: int) -> None:
    """Valid requests of each call, and invalid ones of each of which something can be invalid, each for itself."""
    load_all_checks()
    schema = schemathesis.openapi.from_dict(world.page.document)
    strategies = []
    for path, methods in world.page.document["paths"].items():
        for method, described in methods.items():
            operation = schema[path][method]
            strategies.append(operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
            if _can_be_invalid(described):
                strategies.append(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    with _client() as http:
        for number, strategy in enumerate(strategies):
            _tried(world, strategy, cases // len(strategies) + 1, seed + number, http)


def _can_be_invalid(operation: Json) -> bool:
    """Whether a generator can find what is not allowed: any text is allowed to a header that is no more than text."""
    if "requestBody" in operation:
        return True
    return any(parameter["schema"] != {"type": "string"} for parameter in operation.get("parameters", []))


def _tried(world: World, strategy: Any, examples: int, seed: int, http: requests.Session) -> None:
    choice = random.Random(seed)  # not hypothesis' own: what there is to choose from changes as the server answers

    @hypothesis.seed(seed)
    @_settings(examples)
    @hypothesis.given(case=strategy)
    def one(case: Case[Any]) -> None:
        world.ground(case, choice)
        judged(world, case, http)

    run: Callable[[], None] = one
    with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # what it finds, no client would send
        run()


def chains(world: World, cases: int, seed: int) -> None:
    """Chains of requests, in which what was answered is what the next one asks about."""
    load_all_checks()
    schema = schemathesis.openapi.from_dict(with_links(world.page.document))
    base: Any = schema.as_state_machine()
    with _client() as http:

        class Machine(base):  # type: ignore[misc]
            def call(self, case: Case[Any], **_: Any) -> Response:
                world.ground(case, random.Random(len(world.versions)))
                return judged(world, case, http)

            def validate_response(self, *_: Any, **__: Any) -> None:
                """It is judged where it is called."""

        for batch in range(cases // (_STEPS * _BATCH) + 1):
            if world.budget.is_over or world.wrong:
                break
            hypothesis.seed(seed + batch)(Machine)
            # A server remembers what it was asked before, so a chain that begins as an earlier one may go on otherwise,
            # and that hypothesis does not like. Then the next batch goes on.
            with contextlib.suppress(Flaky):
                Machine.run(settings=_settings(_BATCH))

"""What may be asked of Prometheus: queries, taken apart, and the metrics that a server really has."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import promql_parser

from milepost.wire import cells_digest
from testbed.server import ServerProcess
from tests.support.servers.certificates import Certificates

FROM_PROMETHEUS = {"up"}
ADDED_BY_PROMETHEUS = {"namespace", "job", "instance", "le"}
CELL = "a"


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The metrics of a server that was asked something, speaks TLS, is a cell, and has a job with a batch."""
    made = Certificates(directory)
    with ServerProcess(directory, *made.flags, tls=made.trusting()) as server:
        server.flags = ("--advertise", server.url, "--cell", CELL, "--cells", CELL, *made.flags)
        server.start()

        def ask(method: str, path: str, body: bytes, **headers: str) -> None:
            asked = urllib.request.Request(f"{server.url}/v1{path}", body, headers, method=method)
            urllib.request.urlopen(asked, timeout=30, context=made.trusting()).close()

        json, driver = {"Content-Type": "application/json"}, {"Milepost-Session": "driver"}
        ask("POST", "/sessions", b'{"ttl": 600, "session": "driver"}', **json)
        ask("PUT", "/jobs/flights/placement", b'{"cells": "%s"}' % cells_digest([CELL]).encode(), **json)
        ask("POST", "/stores/flights/epoch", b"{}", **json, **driver)
        under = {**driver, "Milepost-Epoch": "1", "Content-Type": "application/octet-stream"}
        ask("PUT", "/stores/flights/files/checkpoint/commits/0", b"v1", **under)
        for _ in range(2):
            with urllib.request.urlopen(f"{server.url}/metrics", timeout=30, context=made.trusting()) as answer:
                text = answer.read().decode()
        yield text


def selectors(expression: str) -> Sequence[promql_parser.VectorSelector]:
    """Every selector in an expression. Raises ValueError if it is none."""
    found: list[promql_parser.VectorSelector] = []

    def visit(part: promql_parser.Expr) -> None:
        if isinstance(part, promql_parser.VectorSelector):
            found.append(part)

    promql_parser.walk(promql_parser.parse(expression), pre_visit=visit)
    return found


def unknown(expression: str, metrics: str) -> set[str]:
    """The metrics that an expression asks for and nobody has, and the labels, as ``metric{label}``."""
    names = set(re.findall(r"^([a-z_]+)", metrics, re.MULTILINE)) | FROM_PROMETHEUS
    asked = selectors(expression)
    assert asked, expression
    found = {str(selector.name) for selector in asked if selector.name not in names}
    for selector in asked:
        for label in {matcher.name for matcher in selector.matchers.matchers} - ADDED_BY_PROMETHEUS:
            if not re.search(rf"^{selector.name}{{[^}}]*\b{label}=", metrics, re.MULTILINE):
                found.add(f"{selector.name}{{{label}}}")
    return found


def matched(selector: promql_parser.VectorSelector) -> dict[str, str]:
    """The labels that a selector goes by."""
    return {matcher.name: matcher.value for matcher in selector.matchers.matchers}

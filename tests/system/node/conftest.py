"""One real node for the whole session, with both images and HDFS on it. Where it cannot be, one reason says why."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.kubernetes_programs import ProgramAbsent, find_program
from testbed.node.node import PROGRAMS, Node
from testbed.node.preload import furnish
from testbed.node.release import Release
from tests.contracts.places import Services

TAGS = ("1", "2")
"""The images of the server: two, so that there is one to go on to."""


def require_node() -> None:
    """Skip where no node can be started."""
    if os.geteuid() != 0:
        pytest.skip("no Kubernetes node: that takes root")
    try:
        for program in PROGRAMS:
            find_program(program)
    except ProgramAbsent as absent:
        pytest.skip(f"no Kubernetes node: {absent}")


@contextmanager
def _started(directory: Path) -> Iterator[Node]:
    with Node(directory).start() as node:
        furnish(node, *TAGS)
        yield node


@pytest.fixture
def node(services: Services) -> Node:
    """The session's node. It is there to be used, not to be stopped."""
    require_node()
    return services.get("node", _started)


@pytest.fixture
def namespace(node: Node) -> Iterator[str]:
    """One of its own for each test; it goes with all that is in it."""
    name = node.namespace(f"test-{secrets.token_hex(4)}")
    yield name
    node.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def release(node: Node, namespace: str) -> Release:
    """A release that is not installed yet."""
    return Release(node, namespace)

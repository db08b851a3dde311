"""Servers for what the pages say to paste."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from testbed.server import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that leads, for all of a file."""
    with ServerProcess(tmp_path_factory.mktemp("leader")) as process:
        yield process.start()


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A replica that sends on to another one, which leads; neither of them is `server`."""
    directories = tmp_path_factory.mktemp("other-leader"), tmp_path_factory.mktemp("follower")
    with ServerProcess(directories[0]) as leader:
        leader.start()
        with ServerProcess(directories[1], pointers=leader.pointers, blobs=leader.blobs) as process:
            yield process.start(until="/readyz")


@pytest.fixture
def asked(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """The URL of a ``leader``, or of a ``follower``."""

    def url(role: str) -> str:
        found: ServerProcess = request.getfixturevalue("server" if role == "leader" else "follower")
        return found.url

    return url

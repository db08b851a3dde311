"""For every test: coroutines run on asyncio (``pytestmark = pytest.mark.anyio`` in a module of them); and what needs a
Kubernetes API or HDFS is marked, by its name, to be run by itself (``make test-kubernetes``). Each has a time limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.contracts.places import Services

_OF_KUBERNETES = ("kubernetes", "hdfs", "tests/deploy/")
_LONG = (
    "tests/spark/test_interruptions.py",
    "tests/simulation/",
    "tests/system/failover/",
    "tests/system/crash/",
    "tests/contracts/state_handle_store/test_re",
    "tests/spark/",
)


def pytest_configure(config: pytest.Config) -> None:
    """Here and not on the command line, so that it holds for every way to run them."""
    config.pluginmanager.import_plugin("tests.support.time_limits")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what has Kubernetes or HDFS in the name of its file, its case or itself, and the tests of the chart.

    Those of Spark are left out: there, hdfs is one of its own state stores.
    """
    for item in items:
        apart = item.get_closest_marker("node") or item.get_closest_marker("spark")
        if apart is None and any(word in item.nodeid for word in _OF_KUBERNETES):
            item.add_marker("kubernetes")
    # A file stays with one process, so the long ones go first, and no process waits at the end.
    items.sort(key=lambda item: next((n for n, long in enumerate(_LONG) if item.nodeid.startswith(long)), len(_LONG)))


@pytest.fixture
def anyio_backend() -> str:
    """The event loop under the tests; the service knows no other."""
    return "asyncio"


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """The real services that tests share through the session; each is started when it is first asked for."""
    with ExitStack() as ends:
        yield Services(ends, tmp_path_factory.mktemp("services"))

"""What holds for every test: coroutines run on asyncio (``pytestmark = pytest.mark.anyio`` in a module of them), a test
has a time limit, and the real services are shared. The suite that a test belongs to is written where the test is.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

from tests.contracts.places import Services
from tests.support import run_services

LONG_SECONDS = 1800
"""The time limit of a test with the mark ``long``: some of them wait for five JVMs, one after the other."""

_BEGIN_WITH = (
    "tests/spark/clusters/",
    "tests/spark/trials/",
    "tests/spark/versions/",
    "tests/wire/webhdfs/failover/",
    "tests/simulation/",
    "tests/spark/guarantees/",
    "tests/hadoop/",
    "tests/system/failover/",
    "tests/system/crash/",
    "tests/contracts/state_handle_store/test_re",
    # Theirs are mostly waits, during which others can work.
    "tests/contracts/test_pointers_contended",
    "tests/wire/access/test_reload",
    "tests/wire/connections/test_slow",
    "tests/spark/",
)


def pytest_configure(config: pytest.Config) -> None:
    """Load these plugins here and not on the command line, so that they hold for every way to run the tests.

    Hypothesis has one of its own for each example, which a busy machine breaks.
    """
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:  # so shells start what runs behind them, and children inherit it
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    settings.register_profile("without-deadline", parent=settings(), deadline=None)
    settings.load_profile("without-deadline")
    config.pluginmanager.import_plugin("tests.support.plugins.time_limits")
    config.pluginmanager.import_plugin("tests.support.plugins.log_forms")
    config.pluginmanager.register(run_services, "milepost-run-services")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files: a file stays with one process, and no process shall wait for another at the end."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))
    items.sort(key=lambda item: [not item.nodeid.startswith(place) for place in _BEGIN_WITH])


@pytest.fixture
def anyio_backend() -> str:
    """The event loop under the tests; the service knows no other."""
    return "asyncio"


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Services]:
    """The real services that tests share through the session; each is started when it is first asked for."""
    with ExitStack() as ends:
        yield Services(ends, tmp_path_factory.mktemp("services"), run_services.of(pytestconfig))

"""One Chromium without a window for all tests of the page; each test has a profile of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

from testbed.server import ServerProcess
from tests.page.chromium import ChromiumAbsent, chromium
from tests.page.screen import Screen


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser. It ends with these tests: while it runs, no other test of this process can run coroutines."""
    with ExitStack() as running:
        try:
            yield running.enter_context(chromium())
        except ChromiumAbsent as absent:
            pytest.skip(f"no Chromium: {absent}")


@pytest.fixture
def screen(browser: Browser) -> Iterator[Screen]:
    """A tab that shows nothing yet. In the end, nothing may have gone wrong in it."""
    with browser.new_context(locale="en-GB") as context:
        made = Screen(context.new_page())
        yield made
        assert made.faults == []


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that all tests leave running; each test has stores of its own."""
    with ServerProcess(tmp_path_factory.mktemp("page")) as process:
        yield process.start()

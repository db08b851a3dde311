"""A pytest plugin: logged lines have pytest's own form in each test, whatever ran before it in the same process.

pytest gives its handlers, which last as long as the process, to all loggers that do not propagate. Where an exception
of Spark's names the line of a frame, it makes such a logger, and that one writes its JSON form into each handler that
it is given. So ``caplog.text`` would be JSON in all later tests.
"""

from __future__ import annotations

import logging
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Generator[None]:
    _propagate()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Generator[None]:
    _propagate()  # again before each part of a test, for which pytest gives its handlers anew
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Generator[None]:
    _propagate()
    return (yield)


def _propagate() -> None:
    for logger in logging.Logger.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.propagate = True

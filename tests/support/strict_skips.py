"""A pytest plugin: where ``CI`` is set, a skipped test is a failed test.

A skip on a developer's machine says what that machine lacks. In CI the same skip would let a part go untested without
anybody noticing. What is too slow for CI is deselected by its marker, and never skipped.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        config.pluginmanager.register(StrictSkips(), "strict-skips")


class StrictSkips:
    """Turns the reports of skipped tests and modules into failures; an expected failure (xfail) stays what it is."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.skipped and not hasattr(report, "wasxfail"):
            _fail(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.skipped:
            _fail(report)
        return report


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    where = report.longrepr
    reason = f"{where[0]}:{where[1]}: {where[2]}" if isinstance(where, tuple) else str(where)
    report.outcome = "failed"
    report.longrepr = f"skipped, which CI does not allow: {reason}"

"""A pytest plugin: where ``CI`` is set, a skipped test is a failed test.

A skip on a developer's machine says what that machine lacks. In CI the same skip would let a part go untested without
anybody noticing. What is too slow for CI is deselected by its marker, and never skipped.

Either way each reason is printed once, in the last lines of the run, with the number of tests that it has kept out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator

import pytest

_REFUSED = "skipped, which CI does not allow: "


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Instead of a line for each test, which ``-ra`` would give."""
    terminalreporter.reportchars = terminalreporter.reportchars.replace("s", "")
    reports = [report for kind in ("skipped", "failed", "error") for report in terminalreporter.stats.get(kind, ())]
    reasons = Counter(reason for reason in map(_reason, reports) if reason is not None)
    if reasons:
        terminalreporter.section("skipped")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count} of the tests: {reason}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """Why it was skipped; None if it was not."""
    where = report.longrepr
    if report.skipped and isinstance(where, tuple):
        return str(where[2]).removeprefix("Skipped: ")
    reason = str(where)
    return reason.rpartition("Skipped: ")[2] if reason.startswith(_REFUSED) else None


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    where = report.longrepr
    reason = f"{where[0]}:{where[1]}: {where[2]}" if isinstance(where, tuple) else str(where)
    report.outcome = "failed"
    report.longrepr = _REFUSED + reason

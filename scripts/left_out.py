"""A pytest plugin that says at the end which tests were left out, and fails them where none may be.

A test that needs an outside server skips itself with a reason that says how to give it one. Those reasons are listed
in the last lines of the run. With `--no-skips` every skip is a failure instead, apart from tests marked `optional`:
they hold against a server of somebody's own what others hold against one that comes with the suite.
"""

from collections import Counter
from collections.abc import Generator
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--no-skips`."""
    parser.addoption("--no-skips", action="store_true", help="fail every test that would be skipped")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skipped test into a failed one under `--no-skips`."""
    report = yield
    optional = item.get_closest_marker("optional") is not None
    return report if optional else _judged(report, item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turns a skipped module into a failed one under `--no-skips`."""
    report = yield
    return _judged(report, collector.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists the reasons of skipped tests with their number."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    terminalreporter.section("left out")
    if not reasons:
        terminalreporter.write_line("nothing")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count:5}  {reason}")


def _judged(report: Report, config: pytest.Config) -> Report:
    expected_failure = hasattr(report, "wasxfail")
    if report.skipped and not expected_failure and config.getoption("--no-skips"):
        report.longrepr = f"left out, and nothing may be: {_reason(report)}"
        report.outcome = "failed"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    # A skip's representation is (file, line, reason).
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")

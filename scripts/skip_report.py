"""pytest plugin that lists skipped tests at the end of a run, and fails them under `--no-skips`.

A test that needs an outside server skips itself with a reason that says how to provide one. The last lines of a run
list these reasons. With `--no-skips` every skip is a failure, apart from tests marked `optional`: these repeat checks
of other tests against a server that the developer provides instead of the suite's.
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
    return report if optional else _failed_if_forbidden(report, item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turns a skipped module into a failed one under `--no-skips`."""
    report = yield
    return _failed_if_forbidden(report, collector.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists the reasons of skipped tests with their counts."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    terminalreporter.section("skipped")
    if not reasons:
        terminalreporter.write_line("no test")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count:5}  {reason}")


def _failed_if_forbidden(report: Report, config: pytest.Config) -> Report:
    expected_failure = hasattr(report, "wasxfail")
    if report.skipped and not expected_failure and config.getoption("--no-skips"):
        report.longrepr = f"skipped under --no-skips: {_reason(report)}"
        report.outcome = "failed"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    # A skip's representation is (file, line, reason).
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")

"""The benchmarks measure every path; their figures are not tested."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.postgresql import Postgresql

PATHS = [
    "GET /me",
    "GET /me",
    "GET /runs/{run_id}",
    "GET /runs/{run_id}",
    "GET /runs (20)",
    "GET events (200)",
    "POST start",
    "GET /runs/{run_id}, edge and backend apart",
]


two_cores = pytest.mark.skipif(
    not {0, 1} <= os.sched_getaffinity(0), reason="server and load have a core each, and here are fewer than two"
)


def trial(module: str, *arguments: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-m", module, "--quick", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended
    return ended.stdout.splitlines()


@two_cores
def test_a_trial_prints_a_figure_of_every_path() -> None:
    alone, at_once, head, rule, *rows = trial("benchmarks")
    assert re.fullmatch(r"one-step run, .* median \d+ ms", alone)
    assert re.fullmatch(r"one-step runs, .* \d+ runs/s", at_once)
    assert head.count("|") == rule.count("|") == 8
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == PATHS
    assert all(re.fullmatch(r"\| [^|]+ \| \d+ \| [\d,]+ \| [\d.]+ \| \d+ \| \d+ \| [\d.]+ \|", row) for row in rows)


def test_a_trial_of_starts_on_postgresql_prints_a_line_of_each_wire_and_the_time_to_the_first_step(
    postgresql_server: Postgresql,
) -> None:
    head, rule, *rows, latency = trial("benchmarks.postgresql", "--server", postgresql_server.shared)
    assert head.count("|") == rule.count("|") == 8
    assert [row.split(" | ")[0] for row in rows] == ["| 0 ms", "| 1 ms"]
    assert re.fullmatch(r"start answered to first step running, idle: median \d+ ms, worst of \d+ \d+ ms", latency)


def test_a_trial_of_commands_prints_the_start_of_each() -> None:
    head, rule, *rows = trial("benchmarks.command_start")
    assert head.count("|") == rule.count("|") == 7
    assert [row.split(" | ")[0] for row in rows] == ["| run, until its first step", "| serve, until it is ready"]
    assert all(re.fullmatch(r"\|[^|]+\|[^|]+\| \d+ \| \d+ to \d+ \| 1.00 \| \d+ \|", row) for row in rows)


@two_cores
def test_a_trial_of_overload_prints_ratios_of_every_load() -> None:
    head, rule, *rows, blank, idle = trial("benchmarks.overload")
    assert head.count("|") == rule.count("|") == 8
    assert len(rows) == 8
    assert all(re.fullmatch(r"\| [^|]+ \| [\d,]+ \|( [\d.]+ \|){4} \d+ \|", row) for row in rows)
    assert (blank, idle.split(":")[0]) == ("", "idle, ms")


@two_cores
def test_a_trial_of_growth_prints_a_ratio_of_every_combination_of_filters_and_of_starts() -> None:
    filled, head, rule, *rows = trial("benchmarks", "--runs", "7000")
    assert filled.startswith("7,000 runs")
    assert head.count("|") == rule.count("|") == 5
    assert all(re.fullmatch(r"\| (GET /runs[a-z_ ]*|POST start) \| [\d.]+ \| [\d.]+ \| [\d.]+ \|", row) for row in rows)
    assert len(rows) == 2**5 + 2


@two_cores
def test_a_trial_of_waiting_prints_what_callers_cost_and_how_soon_they_have_a_change(
    postgresql_server: Postgresql,
) -> None:
    one, _, _, apart, *changes = trial("benchmarks.waiting", "--server", postgresql_server.shared)
    for line in (one, apart):
        assert re.fullmatch(r"20 callers wait, [a-z ]+: \d+ MB \(idle \d+\), [\d.]+% of a core", line)
    assert len(changes) == 3
    assert all(re.fullmatch(r"a change[^;]*, ms;( [a-z ]+: p50 [\d.-]+, p99 [\d.-]+;?){2}", line) for line in changes)

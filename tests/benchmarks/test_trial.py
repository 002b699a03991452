"""The benchmarks measure every path; their figures are not tested."""

import os
import re
import subprocess
import sys

import pytest

from benchmarks.peers import comparison
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
FIGURE = r"[\d,.]+ \([\d,.]+ to [\d,.]+\)"


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
    alone, at_once, beside, head, rule, *rows = trial("benchmarks")
    assert re.fullmatch(rf"one-step run, .* median {FIGURE} ms", alone)
    assert re.fullmatch(rf"one-step runs, .* {FIGURE} runs/s", at_once)
    assert re.fullmatch(rf"reads .*: throughput {FIGURE}, p99 {FIGURE}", beside)
    assert head.count("|") == rule.count("|") == 9
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == PATHS
    assert all(re.fullmatch(rf"\| [^|]+ \| \d+ \| [\d,]+ (\| {FIGURE} ){{5}}\|", row) for row in rows)


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


def test_a_trial_of_paths_prints_a_row_of_every_call() -> None:
    head, rule, *rows = trial("benchmarks.path")
    assert head.count("|") == rule.count("|") == 4
    assert [row.split(" | ")[0] for row in rows] == [
        "| POST start",
        "| GET /me",
        "| GET /runs/{run_id}, changed",
        "| GET /runs/{run_id}, unchanged",
    ]
    assert all(re.fullmatch(r"\| [^|]+ \| [1-9]\d* \| [1-9]\d* \|", row) for row in rows)


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
    lines = trial("benchmarks.waiting", "--server", postgresql_server.shared)
    costs = [line for line in lines if "callers wait" in line]
    changes = [line for line in lines if line not in costs]
    cost = r"20 callers wait, (20|1) for each run, [a-z ]+: \d+ MB \(idle \d+\), [\d.]+% of a core"
    assert len(costs) == 4
    assert all(re.fullmatch(cost, line) for line in costs)
    assert len(changes) == 7
    assert all(re.fullmatch(r"a change[^;]*, ms;( [a-z ]+: p50 [\d.-]+, p99 [\d.-]+;?){2}", line) for line in changes)


@two_cores
def test_a_trial_of_peers_prints_a_ratio_of_every_measure() -> None:
    head, rule, *rows = trial("benchmarks.peers")
    assert head.count("|") == rule.count("|") == 8
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [each.name for each in comparison.MEASURES]
    assert all(re.fullmatch(r"\| [^|]+ \|( [\d.,]+ \| [\d.,]+ to [\d.,]+ \|){3}", row) for row in rows)


def test_a_peer_is_compared_by_the_ratios_of_rounds_and_by_time_the_other_way_round() -> None:
    starts, *_, alone = comparison.MEASURES
    assert comparison.row(starts, [10, 200, 30], [10, 100, 10]).endswith("| 2 | 1 to 3 |")
    assert comparison.row(alone, [10, 10, 20], [10, 30, 40]).endswith("| 2 | 1 to 3 |")

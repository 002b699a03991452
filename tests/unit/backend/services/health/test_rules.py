"""What a person is told to look at."""

from typing import Any

import pytest

from backend.services.health.rules import HealthFigures, findings
from backend.services.health.sql import ProcessRow, WorkerRow
from backend.services.runs.backlog_sql import BacklogRow

NOW = 10**12
GB = 10**9
QUIET = BacklogRow(*[0] * len(BacklogRow._fields))._replace(oldest_queued_at=None, workers=1)


def process(**other: Any) -> ProcessRow:
    return ProcessRow("proc_1", "backend", "host-a", 1, "1.0.139", NOW, NOW)._replace(**other)


def told(**other: Any) -> list[tuple[bool, str]]:
    fields = {"now": NOW, "lease_now": NOW, "processes": [process()], "workers": [], "backlog": QUIET, "database_ms": 3}
    return [
        (each.critical, each.message)
        for each in findings(HealthFigures(**{"needs_workers": True, "start_wait": None, **fields, **other}))
    ]


def test_a_deployment_that_is_well_has_no_finding() -> None:
    assert told() == []


@pytest.mark.parametrize(("free", "critical"), [(50 * GB, None), (9 * GB, False), (GB // 2, True)])
def test_little_room_on_a_disk_is_told(free: int, critical: bool | None) -> None:
    found = told(processes=[process(data_total=100 * GB, data_free=free)])
    assert found == (
        [] if critical is None else [(critical, f"The disk of the data folder on host-a has {free / GB:,.1f} GB free.")]
    )


def test_a_small_disk_that_is_nearly_empty_is_no_finding() -> None:
    assert told(processes=[process(objects_total=5 * GB, objects_free=4 * GB)]) == []


def test_no_worker_is_critical_only_where_runs_need_one() -> None:
    none = QUIET._replace(workers=0)
    assert told(backlog=none) == [(True, "No worker holds a lease: no run goes on.")]
    assert told(backlog=none, needs_workers=False) == []


@pytest.mark.parametrize(("seconds", "critical"), [(59, None), (61, False), (601, True)])
def test_a_queue_that_waits_long_is_told(seconds: int, critical: bool | None) -> None:
    backlog = QUIET._replace(segments_waiting=3, oldest_queued_at=NOW - seconds * 1000)
    message = f"The oldest of 3 queued parts of runs has waited for {seconds:,} seconds."
    assert told(backlog=backlog) == ([] if critical is None else [(critical, message)])


def test_a_queue_that_waits_long_says_how_long_a_start_will_probably_wait() -> None:
    backlog = QUIET._replace(segments_waiting=3, oldest_queued_at=NOW - 61_000)
    message = "The oldest of 3 queued parts of runs has waited for 61 seconds; a run started now will probably wait"
    assert told(backlog=backlog, start_wait=240_000) == [(False, f"{message} about 4 minutes.")]


def test_a_lease_that_has_run_out_and_a_redaction_backlog_are_told() -> None:
    lease = WorkerRow("own_1", "host-b", 8, NOW, NOW - 1, 0)
    found = told(workers=[lease], backlog=QUIET._replace(sweeps=10_000))
    assert [message for _, message in found] == [
        "The lease of a process on host-b (own_1) has run out.",
        "Outputs of 10,000 or more finished runs are still to be swept for personal data.",
    ]


def test_a_clock_that_is_off_is_a_finding_while_its_process_reports() -> None:
    off = process(host="host-b", clock_ahead=-3_000)
    assert told(processes=[off]) == [(False, "The clock of host-b is 3.0 seconds behind.")]
    gone = off._replace(seen_at=NOW - 61_000)
    assert [message for _, message in told(processes=[gone])] == [
        "Backend on host-b (process 1) has not reported for a minute."
    ]


def test_two_processes_of_a_host_that_are_gone_are_told_apart() -> None:
    gone = [process(part="worker", pid=pid, seen_at=NOW - 61_000) for pid in (7, 8)]
    assert [message for _, message in told(processes=gone)] == [
        "Worker on host-a (process 7), worker on host-a (process 8) have not reported for a minute."
    ]

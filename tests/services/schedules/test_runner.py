"""Starts at due times: once each, whatever happens to clocks and processes."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backend.services.runs.resume.follow_up import InterruptedRuns
from backend.services.runs.resume.service import RunResumer
from backend.services.uploads.staging import Uploads
from backend.storage.database import Tx
from tests.services.calls import RefusedError
from tests.services.schedules.conftest import ScheduleWorld, utc
from workflow_api.v1 import runs_pb2

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NIGHTLY = '{name: nightly, cron: "0 2 * * *"}'
QUARTERLY = '{name: nightly, cron: "*/15 * * * *", overlap: allow}'


def test_a_due_time_starts_one_run_that_nobodys_key_started(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 01:00"))
    workflow = world.define('{name: nightly, cron: "0 2 * * *", parameters: {region: US}}')
    world.round(utc("2026-09-24 01:59:59"))
    assert world.scheduled_runs() == []
    for _ in range(3):
        world.round(utc("2026-09-24 02:00:01"))
    (run,) = world.scheduled_runs()
    assert (run.key_id, run.workflow_id, run.version, json.loads(run.parameters)) == ("", workflow, 1, {"region": "US"})
    assert world.last() == ("started", "")
    assert world.schedule().last.run_id == run.run_id
    assert world.schedule().next_times[0].seconds * 1000 == utc("2026-09-25 02:00")
    (record,) = world.audited("run.started")
    assert (record.actor, record.target) == ("system", run.run_id)


def test_the_next_five_times_are_shown(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 01:00"))
    world.define(NIGHTLY)
    days = [time.seconds * 1000 for time in world.schedule().next_times]
    assert days == [utc(f"2026-09-{day} 02:00") for day in range(24, 29)]


@pytest.mark.parametrize(
    ("cron", "before", "expected"),
    [
        # Clocks go forward from 02:00 to 03:00: a time that is not there is the first after it.
        ("30 2 * * *", "2026-03-29 00:30", ["2026-03-29 01:00", "2026-03-30 00:30"]),
        ("0 3 * * *", "2026-03-29 00:30", ["2026-03-29 01:00", "2026-03-30 01:00"]),
        # They go back from 03:00 to 02:00: a time of day that is there twice is taken once.
        ("30 2 * * *", "2026-10-24 23:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
        # What repeats is due each time.
        (
            "*/30 2 * * *",
            "2026-10-24 23:00",
            ["2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30"],
        ),
        ("0 * * * *", "2026-10-24 23:30", [f"2026-10-25 0{hour}:00" for hour in range(4)]),
    ],
)
def test_due_times_follow_the_zone_over_the_change_of_summer_time(
    world: ScheduleWorld, cron: str, before: str, expected: list[str]
) -> None:
    world.at(utc(before))
    world.define(f'{{name: nightly, cron: "{cron}", timezone: Europe/Madrid, overlap: allow}}')
    end = utc(expected[-1])
    time = world.clock()
    while time < end + MINUTE:
        time += MINUTE
        world.round(time)
    assert world.started_at() == [utc(due) for due in expected]


def test_several_backends_start_one_run_at_each_due_time(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 00:01"))
    world.define(QUARTERLY)
    runners = [world.new_runner() for _ in range(4)]
    with ThreadPoolExecutor(len(runners)) as threads:
        for number in range(1, 9):
            world.at(utc("2026-09-24 00:00") + number * 15 * MINUTE)
            for done in [threads.submit(runner.round) for runner in runners]:
                done.result()
    assert world.started_at() == [utc("2026-09-24 00:00") + number * 15 * MINUTE for number in range(1, 9)]
    assert len(world.scheduled_runs()) == 8


def test_a_process_that_dies_in_the_transaction_leaves_nothing_and_the_next_one_starts_the_run(
    world: ScheduleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise OSError("the process ends here")

    world.at(utc("2026-09-24 01:00"))
    world.define(NIGHTLY)
    world.at(utc("2026-09-24 02:00"))
    with monkeypatch.context() as patch:
        # After the run and its record were written, before the commit.
        patch.setattr("backend.services.runs.start.start_group.StartGroup.write", killed)
        world.new_runner().round()
    assert (world.scheduled_runs(), world.started_at()) == ([], [])
    world.new_runner().round()
    assert world.started_at() == [utc("2026-09-24 02:00")]


def test_a_clock_that_is_put_forward_skips_what_was_missed_with_one_record(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 00:01"))
    world.define(QUARTERLY)
    world.round(utc("2026-09-24 00:01"))
    world.round(utc("2026-09-24 06:05"))
    assert world.started_at() == []
    (skipped,) = world.audited("schedule.skipped")
    details = json.loads(skipped.details)
    assert (details["reason"], int(details["count"])) == ("missed", 24)
    world.round(utc("2026-09-24 06:15"))
    assert world.started_at() == [utc("2026-09-24 06:15")]


def test_a_clock_that_was_ahead_and_is_put_back_neither_repeats_a_due_time_nor_stops_the_schedule(
    world: ScheduleWorld,
) -> None:
    world.at(utc("2026-09-24 00:01"))
    world.define(QUARTERLY)
    world.round(utc("2026-09-24 00:15"))
    world.round(utc("2027-09-24 00:15"))
    for minutes in (16, 30, 45):
        world.round(utc("2026-09-24 00:00") + minutes * MINUTE)
    world.round(utc("2026-09-24 00:10"))
    world.round(utc("2026-09-24 00:15"))
    world.round(utc("2026-09-24 00:30"))
    world.round(utc("2026-09-24 01:00"))
    first = utc("2026-09-24 00:00")
    expected = [first + minutes * MINUTE for minutes in (15, 30, 45, 60)]
    assert world.started_at() == sorted([*expected, utc("2027-09-24 00:15")])


@pytest.mark.parametrize(
    ("catch_up", "started", "count", "last_missed"),
    [("none", [], 7, "2026-10-01 02:00"), ("latest", ["2026-10-01 02:00"], 6, "2026-09-30 02:00")],
)
def test_after_a_week_without_a_process_the_newest_missed_time_starts_or_none(
    world: ScheduleWorld, catch_up: str, started: list[str], count: int, last_missed: str
) -> None:
    world.at(utc("2026-09-24 12:00"))
    world.define(f'{{name: nightly, cron: "0 2 * * *", catch_up: {catch_up}}}')
    world.round(utc("2026-10-01 12:00"))
    world.round(utc("2026-10-01 12:01"))
    assert world.started_at() == [utc(due) for due in started]
    (skipped,) = world.audited("schedule.skipped")
    details = json.loads(skipped.details)
    assert int(details["count"]) == count
    assert details["due_at"].startswith(last_missed.replace(" ", "T"))
    world.end_runs()
    world.round(utc("2026-10-02 02:00"))
    assert world.started_at() == [*(utc(due) for due in started), utc("2026-10-02 02:00")]


def test_a_schedule_of_every_minute_that_was_down_for_a_year_is_decided_at_once(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 12:00"))
    world.define('{name: nightly, cron: "* * * * *", catch_up: latest}')
    world.round(utc("2027-09-24 12:00:30"))
    # The times of the last two minutes count as on time: the first starts, and the next meets its run.
    assert world.started_at() == [utc("2027-09-24 11:59")]
    missed, in_flight = (json.loads(record.details) for record in world.audited("schedule.skipped"))
    assert (missed["reason"], missed["count"]) == ("missed", 10_000)
    assert (in_flight["reason"], in_flight["count"]) == ("in_flight", 1)


def test_skip_leaves_out_a_due_time_while_a_run_is_in_flight(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 00:01"))
    world.define('{name: nightly, cron: "*/15 * * * *"}')
    world.round(utc("2026-09-24 00:15"))
    world.round(utc("2026-09-24 00:30"))
    assert world.last() == ("skipped", "in_flight")
    assert world.schedule().last.run_id == world.scheduled_runs()[0].run_id
    assert len(world.audited("schedule.skipped")) == 1
    world.end_runs()
    world.round(utc("2026-09-24 00:45"))
    assert world.started_at() == [utc("2026-09-24 00:15"), utc("2026-09-24 00:45")]


def test_queue_lets_one_wait_and_start_when_the_run_in_flight_has_ended(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 00:01"))
    world.define('{name: nightly, cron: "*/15 * * * *", overlap: queue}')
    world.round(utc("2026-09-24 00:15"))
    world.round(utc("2026-09-24 00:30"))
    assert world.last() == ("queued", "")
    assert world.schedule().waiting.seconds * 1000 == utc("2026-09-24 00:30")
    world.round(utc("2026-09-24 00:45"))
    assert world.last() == ("skipped", "queue_full")
    world.end_runs()
    world.round(utc("2026-09-24 00:50"))
    assert world.started_at() == [utc("2026-09-24 00:15"), utc("2026-09-24 00:30")]
    assert not world.schedule().HasField("waiting")


def test_a_due_time_that_waits_holds_up_no_change_of_others(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 00:01"))
    world.define('{name: nightly, cron: "*/15 * * * *", overlap: queue}')
    world.round(utc("2026-09-24 00:15"))
    world.round(utc("2026-09-24 00:30"))
    world.at(utc("2026-09-24 00:31"))
    with ThreadPoolExecutor(1) as threads:

        def beside(_: Tx) -> None:
            # It would wait for this change, if it wrote anything.
            threads.submit(world.round).result(timeout=30)

        world.services.database.write(beside)
    assert world.last() == ("queued", "")


def test_allow_starts_beside_a_run_in_flight(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 00:01"))
    world.define(QUARTERLY)
    world.round(utc("2026-09-24 00:15"))
    world.round(utc("2026-09-24 00:30"))
    assert [run.status for run in world.scheduled_runs()] == ["queued", "queued"]


def test_a_refused_start_is_a_failure_that_people_see_and_the_next_due_time_is_tried(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 01:00"))
    world.define(NIGHTLY)
    world.switch("Timed", active=False)
    world.round(utc("2026-09-24 02:00"))
    world.round(utc("2026-09-24 02:00:01"))
    outcome, reason = world.last()
    assert (outcome, reason.split(":")[0]) == ("failed", "workflow_not_active")
    assert len(world.audited("schedule.failed")) == 1
    world.switch("Timed", active=True)
    world.round(utc("2026-09-25 02:00"))
    assert world.started_at() == [utc("2026-09-25 02:00")]


def test_runs_of_schedules_are_no_keys_and_count_for_no_quota(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 01:00"))
    world.define(NIGHTLY)
    world.round(utc("2026-09-24 02:00"))
    (run,) = world.scheduled_runs()
    with pytest.raises(RefusedError) as caught:
        world.get(run.run_id)
    assert caught.value.reason == "run_not_found"
    assert world.get(run.run_id, None).summary.run_id == run.run_id
    assert world.count("daily_usage") == 0
    assert list(world.runs("ListRuns", runs_pb2.ListRunsRequest(), world.key).items) == []


def test_the_data_of_a_scheduled_run_is_erased_as_that_of_any_other(world: ScheduleWorld) -> None:
    world.at(utc("2026-09-24 01:00"))
    world.define(NIGHTLY)
    world.round(utc("2026-09-24 02:00"))
    world.end_runs()
    (run,) = world.scheduled_runs()
    world.runs("EraseRunData", runs_pb2.EraseRunDataRequest(run_id=run.run_id))
    assert world.row(run.run_id).parameters is None
    world.at(utc("2026-09-24 01:59"))
    world.new_runner().round()
    world.round(utc("2026-09-24 02:00:30"))
    assert len(world.scheduled_runs()) == 1


def test_a_run_that_is_to_be_resumed_by_itself_and_the_run_that_resumes_it_are_in_flight(
    world: ScheduleWorld, tmp_path: Path
) -> None:
    world.at(utc("2026-09-24 00:01"))
    steps = "on_interruption: resume\nsteps: [{step: first, agent: worker, environment: standard}]"
    world.define('{name: nightly, cron: "*/15 * * * *"}', steps=steps)
    world.round(utc("2026-09-24 00:15"))
    (run,) = world.scheduled_runs()
    world.begin(run.run_id)
    assert world.close(run.run_id, "failed", error_code="orphaned", error_message="x")
    world.round(utc("2026-09-24 00:30"))
    assert world.last() == ("skipped", "in_flight")
    uploads = Uploads(world.services, world.objects, tmp_path / "more-uploads")
    InterruptedRuns(world.services, RunResumer(world.services, world.starter, uploads)).round()
    _, resumed = world.scheduled_runs()
    assert resumed.resumed_from == run.run_id
    world.round(utc("2026-09-24 00:45"))
    assert world.schedule().last.run_id == resumed.run_id
    world.end_runs()
    world.round(utc("2026-09-24 01:00"))
    assert world.started_at() == [utc("2026-09-24 00:15"), utc("2026-09-24 01:00")]

"""ListFoundRuns and GetRunDays: runs as people look through them."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import bindparam, update

from backend.common.clock import DAY_MS
from backend.runtime.execution import sql as execution_sql
from backend.services.model_usage.sql import AttemptUsage, record
from backend.services.runs import figures, found_runs, search_sql
from backend.services.runs.figures import RunDays
from backend.services.runs.servicer import RunListsServicer
from backend.storage.database import Tx
from backend.storage.statements import Command
from backend.storage.tables.runs import runs
from contract.times import milliseconds_of, to_timestamp
from tests.services.calls import Caller, RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import run_lists_pb2, runs_pb2

COMPLETED, QUEUED = runs_pb2.RUN_STATUS_COMPLETED, runs_pb2.RUN_STATUS_QUEUED


@pytest.fixture
def lists(world: World) -> Iterator[Caller]:
    service = run_lists_pb2.DESCRIPTOR.services_by_name["RunListsService"]
    counted = RunDays(world.services, wait_seconds=60)
    yield Caller(RunListsServicer(world.services, counted), service)
    counted.close()


def page(lists: Caller, **asked: Any) -> run_lists_pb2.ListFoundRunsResponse:
    answer: run_lists_pb2.ListFoundRunsResponse = lists("ListFoundRuns", run_lists_pb2.ListFoundRunsRequest(**asked))
    return answer


def ids(lists: Caller, **asked: Any) -> list[str]:
    return [each.run.run_id for each in page(lists, **asked).items]


def days(lists: Caller) -> list[run_lists_pb2.RunDay]:
    return list(lists("GetRunDays", run_lists_pb2.GetRunDaysRequest()).days)


def test_a_text_finds_runs_by_id_by_reference_and_by_label(world: World, lists: Caller) -> None:
    by_reference = world.started(client_reference="order 7")
    by_label = world.started(labels={"order": "order 7", "colour": "red"})
    world.started(client_reference="order 8")
    assert ids(lists, search="order 7") == [by_label, by_reference]
    assert ids(lists, search="colour=red") == ids(lists, search=" red ") == [by_label]
    assert ids(lists, search="order=red") == []
    assert ids(lists, search=by_reference) == ids(lists, search=by_reference[:-1]) == [by_reference]
    assert ids(lists, search="run_") == []


def test_filters_and_a_text_hold_together(world: World, lists: Caller) -> None:
    other = world.new_key()
    ended = world.finished(labels={"team": "a"})
    world.started("Gated", labels={"team": "a"})
    foreign = world.started(labels={"team": "a"}, key=other)
    of_person = world.started(labels={"team": "a"}, key=None)
    plain = world.workflows["Plain"]
    assert ids(lists, search="a", workflow_id=plain) == [of_person, foreign, ended]
    assert ids(lists, search="a", status=[COMPLETED]) == [ended]
    assert ids(lists, search="a", key_id=other) == [foreign]
    assert ids(lists, search="team=a", key_id="") == [of_person]
    assert ids(lists, search=ended, status=[QUEUED]) == []
    assert ids(lists, search="a", created_before=to_timestamp(world.clock())) == [ended]


def test_a_search_by_a_common_label_ends_its_page_early_and_goes_on(
    world: World, lists: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_sql, "MOST_EXAMINED", 2)
    wanted = world.finished(labels={"team": "a"})
    for _ in range(5):
        world.started(labels={"team": "a"})
    asked = {"search": "a", "status": [COMPLETED]}
    answer, pages = page(lists, **asked), 1
    found = [each.run.run_id for each in answer.items]
    while answer.HasField("next_page_token"):
        answer, pages = page(lists, page_token=answer.next_page_token, **asked), pages + 1
        found += [each.run.run_id for each in answer.items]
    assert (found, pages) == ([wanted], 4)


def test_the_oldest_come_first_on_request_page_by_page_with_every_way_to_find_them(
    world: World, lists: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_sql, "MOST_EXAMINED", 2)
    found = []
    for number in range(5):
        found.append(world.finished(labels={"team": "a"}, client_reference="a" if number % 2 else None))
        world.clock.advance(seconds=1)
    for asked in ({}, {"search": "a"}, {"search": "team=a", "status": [COMPLETED]}, {"search": found[0][:10]}):
        listed, token = [], ""
        while True:
            answer = page(lists, oldest_first=True, page_size=2, page_token=token, **asked)
            listed += [each.run.run_id for each in answer.items]
            if not answer.HasField("next_page_token"):
                break
            token = answer.next_page_token
        assert listed == found, asked


def test_a_failed_run_has_the_beginning_of_its_error_and_no_other_run_has_one(world: World, lists: Caller) -> None:
    world.finished()
    run_id = world.started()
    world.begin(run_id)
    world.close(run_id, "failed", error_code="node_failed", error_message="e" * 400)
    failed, completed = page(lists).items
    assert (failed.error.code, failed.error.message) == ("node_failed", "e" * 300 + "…")
    assert not completed.HasField("error")


def test_a_run_that_called_models_has_its_tokens_and_its_known_cost(world: World, lists: Caller) -> None:
    run_id, plain = world.finished(), world.finished()
    used_twice = [AttemptUsage(step, -1, 1, "test:m", 2, 30, 5, 0, cost) for step, cost in (("a", 1_500), ("b", None))]
    world.services.database.write(lambda tx: record(tx, run_id, world.clock(), used_twice))
    items = {each.run.run_id: each for each in page(lists).items}
    used = items[run_id]
    assert (used.model_calls, used.tokens, used.cost_microusd, used.unpriced_calls) == (4, 70, 1_500, 2)
    assert items[plain].model_calls == items[plain].cost_microusd == 0


def test_a_run_says_who_started_it_and_how_long_it_waited(world: World, lists: Caller) -> None:
    run_id = world.started("Gated", key=None)
    world.clock.advance(seconds=2)
    segment_id = world.begin(run_id)
    world.clock.advance(seconds=5)
    first, second = world.park(run_id, segment_id, "review", "other")
    asked_at = world.clock()
    world.clock.advance(seconds=3)
    world.decide(first, approve=True)
    (found,) = page(lists).items
    assert (found.started_by, found.HasField("key_id")) == ("tester", False)
    assert milliseconds_of(found.waited) == 2_000
    assert milliseconds_of(found.waiting_since) == asked_at
    world.decide(second, approve=True)
    (found,) = page(lists).items
    assert (milliseconds_of(found.waited), found.HasField("waiting_since")) == (5_000, False)


def test_days_have_counts_and_durations_of_the_runs_that_ended(world: World, lists: Caller) -> None:
    world.clock.advance(seconds=(DAY_MS - world.clock() % DAY_MS) // 1000 + 1)
    for seconds in range(1, 21):
        run_id = world.started()
        world.begin(run_id)
        world.clock.advance(seconds=seconds)
        world.close(run_id, "failed" if seconds == 1 else "completed")
    world.close(world.started(), "cancelled")
    figures = days(lists)
    today = figures[-1]
    assert [milliseconds_of(day.day) // DAY_MS for day in figures] == list(
        range(world.clock() // DAY_MS - 29, world.clock() // DAY_MS + 1)
    )
    assert (today.ended, today.failed, today.cancelled) == (21, 1, 1)
    assert (milliseconds_of(today.median), milliseconds_of(today.p95)) == (10_000, 19_000)
    assert (figures[0].ended, figures[0].HasField("median")) == (0, False)


def failures(lists: Caller, **asked: Any) -> run_lists_pb2.NewestFailures:
    answer: run_lists_pb2.NewestFailures = lists("GetNewestFailures", run_lists_pb2.GetNewestFailuresRequest(**asked))
    return answer


def test_failures_since_yesterday_are_listed_with_their_errors_newest_first(world: World, lists: Caller) -> None:
    world.clock.advance(seconds=(DAY_MS - world.clock() % DAY_MS) // 1000 - 60)
    world.close(world.started(), "failed", error_code="node_failed", error_message="early")
    world.clock.advance(seconds=120)
    yesterday, today = world.started("Gated"), world.started()
    world.close(yesterday, "failed", error_code="node_failed", error_message="out of paper")
    world.clock.advance(days=1)
    world.finished()
    world.close(today, "failed", error_code="orphaned")
    found = failures(lists)
    assert [each.run_id for each in found.items] == [today, yesterday]
    assert [(each.workflow_name, each.error.message) for each in found.items] == [
        ("Plain", ""),
        ("Gated", "out of paper"),
    ]
    assert (found.more, milliseconds_of(found.since)) == (False, (world.clock() // DAY_MS - 1) * DAY_MS)
    cut = failures(lists, limit=1)
    assert ([each.run_id for each in cut.items], cut.more) == ([today], True)


def test_a_day_is_counted_once_it_is_over_and_today_every_ten_seconds(world: World, lists: Caller) -> None:
    world.finished()
    assert days(lists)[-1].ended == 1
    world.finished()
    assert days(lists)[-1].ended == 1
    world.clock.advance(seconds=10)
    assert days(lists)[-1].ended == 2
    world.clock.advance(seconds=DAY_MS // 1000 + 600)
    assert [day.ended for day in days(lists)[-2:]] == [2, 0]
    kept = world.dump("run_days")
    assert [row.ended for row in kept if row.ended] == [2]
    assert {row.day for row in kept} >= {world.clock() // DAY_MS - 1}
    assert world.clock() // DAY_MS not in {row.day for row in kept}


def test_a_day_that_a_clock_ahead_took_for_over_is_counted_again(world: World, lists: Caller) -> None:
    world.finished()
    world.clock.advance(days=1, hours=1)
    days(lists)
    assert [row.ended for row in world.dump("run_days") if row.ended] == [1]
    world.clock.advance(days=-1, hours=-1)
    world.finished()
    assert days(lists)[-1].ended == 2
    world.clock.advance(days=1, hours=1)
    assert [day.ended for day in days(lists)[-2:]] == [2, 0]
    assert [row.ended for row in world.dump("run_days") if row.ended] == [2]


def figures_of(world: World, lists: Caller, name: str) -> run_lists_pb2.WorkflowFigures:
    request = run_lists_pb2.GetWorkflowFiguresRequest(workflow_id=world.workflows[name])
    answer: run_lists_pb2.WorkflowFigures = lists("GetWorkflowFigures", request)
    return answer


def test_figures_of_a_workflow_are_of_its_own_runs_that_ended_within_thirty_days(world: World, lists: Caller) -> None:
    world.finished()
    world.clock.advance(seconds=31 * DAY_MS // 1000)
    for seconds in range(1, 21):
        run_id = world.started()
        world.begin(run_id)
        world.clock.advance(seconds=seconds)
        world.close(run_id, "failed" if seconds == 1 else "completed")
    world.close(world.started(), "cancelled")
    world.started()
    world.close(world.started("Gated"), "cancelled")
    found = figures_of(world, lists, "Plain")
    assert (found.ended, found.completed, found.failed, found.cancelled, found.more) == (21, 19, 1, 1, False)
    assert (milliseconds_of(found.median), milliseconds_of(found.p95)) == (10_000, 19_000)
    gated = figures_of(world, lists, "Gated")
    assert (gated.ended, gated.HasField("median"), len(gated.steps)) == (1, False, 0)


def save_step(tx: Tx, run_id: str, columns: dict[str, object]) -> None:
    """Writes the first step of a run."""
    (first, *_) = execution_sql.steps_of(tx, run_id)
    execution_sql.save_steps(tx, run_id, [{**first._asdict(), **columns}])


def test_figures_of_steps_are_of_the_newest_runs(world: World, lists: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MOST_RUNS", 3)
    monkeypatch.setattr(figures, "MOST_STEP_RUNS", 2)
    for seconds in (100, 4, 3, 2):
        run_id = world.started()
        world.begin(run_id)
        began = world.clock()
        world.clock.advance(seconds=seconds)
        status = "failed" if seconds == 3 else "completed"
        ended: dict[str, object] = {
            "status": status,
            "attempt": seconds,
            "started_at": began,
            "finished_at": world.clock(),
        }
        world.services.database.write(partial(save_step, run_id=run_id, columns=ended))
        world.close(run_id, "completed")
    found = figures_of(world, lists, "Plain")
    assert (found.ended, found.more, found.step_runs) == (3, True, 2)
    (first,) = found.steps
    assert (first.step, first.ended, first.failed, first.retried) == ("first", 2, 1, 2)
    assert (milliseconds_of(first.median), milliseconds_of(first.p95)) == (2_000, 3_000)


def in_pages(lists: Caller, **asked: Any) -> list[str]:
    """Returns the ids of all runs, read in pages of two."""
    listed, token = [], ""
    while True:
        answer = page(lists, page_size=2, page_token=token, **asked)
        listed += [each.run.run_id for each in answer.items]
        if not answer.HasField("next_page_token"):
            return listed
        token = answer.next_page_token


def test_runs_are_ordered_by_duration_page_by_page_with_those_that_have_not_begun_last(
    world: World, lists: Caller
) -> None:
    queued = world.started()
    short, long = (world.started() for _ in range(2))
    for run_id, seconds in ((short, 2), (long, 60)):
        world.begin(run_id)
        world.clock.advance(seconds=seconds)
        world.close(run_id, "completed")
    running = world.started()
    world.begin(running)
    world.clock.advance(seconds=5)
    assert in_pages(lists, order=run_lists_pb2.RUN_ORDER_DURATION_DESCENDING) == [long, running, short, queued]
    assert in_pages(lists, order=run_lists_pb2.RUN_ORDER_DURATION_ASCENDING) == [short, running, long, queued]


def test_runs_are_ordered_by_known_cost_with_those_without_one_last(world: World, lists: Caller) -> None:
    plain = world.finished()
    world.clock.advance(seconds=1)
    costs: dict[str, int | None] = {world.finished(): cost for cost in (1_500, 20_000, None)}
    for run_id, cost in costs.items():
        used = [AttemptUsage("a", -1, 1, "test:m", 1, 30, 5, 0, cost)]
        world.services.database.write(partial(record, run_id=run_id, at=world.clock(), usages=used))
    cheap, dear, unknown = costs
    assert in_pages(lists, order=run_lists_pb2.RUN_ORDER_COST_DESCENDING) == [dear, cheap, unknown, plain]
    assert in_pages(lists, order=run_lists_pb2.RUN_ORDER_COST_ASCENDING) == [cheap, dear, unknown, plain]


def test_runs_are_ordered_by_status_with_filters_and_a_text(world: World, lists: Caller) -> None:
    completed = world.finished(labels={"team": "a"})
    world.finished()
    world.clock.advance(seconds=1)
    queued = world.started(labels={"team": "a"})
    order = run_lists_pb2.RUN_ORDER_STATUS_ASCENDING
    assert in_pages(lists, order=order, search="a") == [queued, completed]
    assert in_pages(lists, order=order, search="a", status=[COMPLETED]) == [completed]
    descending = run_lists_pb2.RUN_ORDER_STATUS_DESCENDING
    assert in_pages(lists, order=descending, search="a", oldest_first=True) == [completed, queued]


def test_an_order_is_of_a_bounded_number_of_the_newest_runs_and_says_so(
    world: World, lists: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found_runs, "MOST_ORDERED", 2)
    oldest = world.finished()
    world.clock.advance(seconds=1)
    since, order = world.clock(), run_lists_pb2.RUN_ORDER_STATUS_DESCENDING
    queued = world.started()
    world.clock.advance(seconds=1)
    completed = world.finished()
    answer = page(lists, order=order)
    assert [each.run.run_id for each in answer.items] == [completed, queued]
    assert milliseconds_of(answer.ordered_since) == since
    before = page(lists, order=order, created_before=answer.ordered_since)
    assert [each.run.run_id for each in before.items] == [oldest]
    assert not before.HasField("ordered_since")


def test_a_page_token_is_of_one_order(world: World, lists: Caller) -> None:
    for _ in range(3):
        world.finished()
    token = page(lists, page_size=2, order=run_lists_pb2.RUN_ORDER_COST_ASCENDING).next_page_token
    for order in (run_lists_pb2.RUN_ORDER_UNSPECIFIED, run_lists_pb2.RUN_ORDER_COST_DESCENDING):
        with pytest.raises(RefusedError) as refused:
            page(lists, page_size=2, page_token=token, order=order)
        assert list(refused.value.problems) == ["page_token"]


def test_runs_of_a_person_are_those_that_they_started(
    world: World, lists: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_sql, "MOST_EXAMINED", 2)
    world.started()
    mine = []
    for number in range(5):
        world.clock.advance(seconds=1)
        mine.append(world.started(labels={"n": str(number)}, client_reference=f"order {number}", key=None))
    assert in_pages(lists, started_by="tester") == mine[::-1]
    assert in_pages(lists, started_by="tester", oldest_first=True) == mine
    assert in_pages(lists, started_by="tester", status=[COMPLETED]) == []
    assert in_pages(lists, started_by="user:nobody") == []
    for text in ("order 3", "n=3", "3", mine[3]):
        assert in_pages(lists, started_by="tester", search=text) == [mine[3]], text
    assert in_pages(lists, started_by="tester", search="m=3") == []


@pytest.mark.parametrize("status", [[], [COMPLETED]], ids=["some match", "none match"])
def test_an_order_of_a_search_that_stopped_says_how_far_it_looked(
    world: World, lists: Caller, monkeypatch: pytest.MonkeyPatch, status: list[runs_pb2.RunStatus.ValueType]
) -> None:
    monkeypatch.setattr(search_sql, "MOST_EXAMINED", 2)
    world.finished(labels={"team": "a"})
    world.clock.advance(seconds=1)
    since = world.clock()
    queued = [world.started(labels={"team": "a"})]
    world.clock.advance(seconds=1)
    queued.append(world.started(labels={"team": "a"}))
    answer = page(lists, order=run_lists_pb2.RUN_ORDER_STATUS_ASCENDING, search="a", status=status)
    assert {each.run.run_id for each in answer.items} == (set() if status else set(queued))
    assert milliseconds_of(answer.ordered_since) == since


def test_children_of_one_step_are_listed_page_by_page(world: World, lists: Caller) -> None:
    parent = world.started()
    started: dict[str, list[str]] = {"a": [], "b": []}
    for step in "abab":
        world.clock.advance(seconds=1)
        child = world.started()
        started[step].append(child)
        adopt = update(runs).where(runs.c.run_id == bindparam("of")).values(parent_run_id=parent, parent_step=step)
        world.services.database.write(partial(_run, Command(adopt), child))

    def listed(**asked: Any) -> Any:
        return lists("ListChildRuns", run_lists_pb2.ListChildRunsRequest(run_id=parent, **asked))

    first = listed(step="b", page_size=1)
    assert [each.run.run_id for each in first.items] == started["b"][:1]
    last = listed(step="b", page_size=1, page_token=first.next_page_token)
    assert [each.run.run_id for each in last.items] == started["b"][1:]
    assert not last.HasField("next_page_token")
    assert len(listed().items) == 4
    with pytest.raises(RefusedError):
        listed(step="a", page_token=first.next_page_token)


def _run(command: Command, run_id: str, tx: Tx) -> None:
    tx.run(command, of=run_id)

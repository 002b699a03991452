"""ListRuns. (contract 15)"""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from contract.times import to_timestamp
from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2

QUEUED, COMPLETED, FAILED = runs_pb2.RUN_STATUS_QUEUED, runs_pb2.RUN_STATUS_COMPLETED, runs_pb2.RUN_STATUS_FAILED


def page(world: World, key: str | None = "", **fields: Any) -> runs_pb2.ListRunsResponse:
    request = runs_pb2.ListRunsRequest(**fields)
    answer: runs_pb2.ListRunsResponse = world.runs("ListRuns", request, world.key if key == "" else key)
    return answer


def ids(world: World, key: str | None = "", **fields: Any) -> list[str]:
    return [run.run_id for run in page(world, key, **fields).items]


def refusal(world: World, **fields: Any) -> str:
    with pytest.raises(RefusedError) as caught:
        page(world, **fields)
    return caught.value.reason


def a_nanosecond_after(milliseconds: int) -> Timestamp:
    time = to_timestamp(milliseconds)
    time.nanos += 1
    return time


def test_runs_are_newest_first_also_within_one_millisecond(world: World) -> None:
    started = [world.started() for _ in range(3)]
    world.clock.advance(seconds=1)
    started.append(world.started())
    assert ids(world) == started[::-1]


def test_an_item_is_the_base_of_the_detail(world: World) -> None:
    run_id = world.finished(labels={"a": "b"})
    assert page(world).items[0] == world.get(run_id).summary


def test_a_key_sees_its_own_runs_and_an_internal_caller_all(world: World) -> None:
    other = world.new_key()
    mine, foreign = world.started(), world.started(key=other)
    assert ids(world) == [mine]
    assert ids(world, other) == [foreign]
    assert ids(world, None) == [foreign, mine]


def test_pages_are_complete_and_the_last_has_no_cursor(world: World) -> None:
    key = world.new_key(max_concurrent_runs=100)
    started = [world.started(key=key) for _ in range(23)]
    first = page(world, key)
    assert [run.run_id for run in first.items] == started[:2:-1]
    last = page(world, key, page_token=first.next_page_token)
    assert [run.run_id for run in last.items] == started[2::-1]
    assert not last.HasField("next_page_token")
    assert not page(world, key, page_size=23).HasField("next_page_token")
    assert page(world, key, page_size=22).HasField("next_page_token")


def test_a_cursor_of_another_key_or_changed_is_invalid(world: World) -> None:
    for _ in range(2):
        world.started()
    cursor = page(world, page_size=1).next_page_token
    with pytest.raises(RefusedError) as caught:
        page(world, world.new_key(), page_token=cursor)
    assert caught.value.reason == "invalid_cursor"
    assert refusal(world, page_token=cursor[:-1] + ("A" if cursor[-1] != "A" else "B")) == "invalid_cursor"
    assert refusal(world, page_token="none") == "invalid_cursor"


def test_a_bad_filter_is_reported_before_a_bad_cursor(world: World) -> None:
    assert refusal(world, status=[99], page_token="none") == "invalid_filter"
    assert refusal(world, status=[99], page_size=0) == "invalid_request"


@pytest.mark.parametrize(
    ("status", "count"),
    [([COMPLETED], 1), ([QUEUED, COMPLETED], 3), ([FAILED], 0), ([QUEUED, QUEUED], 2)],
    ids=["one", "two", "none of it", "twice the same"],
)
def test_a_run_of_any_status_of_the_filter_is_listed(world: World, status: list[int], count: int) -> None:
    world.finished()
    for _ in range(2):
        world.started()
    assert len(ids(world, status=status)) == count


@pytest.mark.parametrize("status", [runs_pb2.RUN_STATUS_UNSPECIFIED, 99])
def test_a_status_that_there_is_not_is_an_invalid_filter(world: World, status: int) -> None:
    assert refusal(world, status=[status]) == "invalid_filter"


def test_workflow_and_client_reference_filter_exactly(world: World) -> None:
    plain = world.started(client_reference="a%")
    gated = world.started("Gated", client_reference="ab")
    assert ids(world, workflow_id=world.workflows["Gated"]) == [gated]
    assert ids(world, workflow_id="wf_none") == []
    assert ids(world, client_reference="a%") == [plain]
    assert ids(world, client_reference="a") == []
    assert ids(world, workflow_id=world.workflows["Gated"], client_reference="a%") == []


def test_date_filters_exclude_their_own_millisecond(world: World) -> None:
    runs = []
    for _ in range(3):
        runs.append(world.started())
        world.clock.now += 1
    middle = world.get(runs[1]).summary.created_at.ToMilliseconds()
    assert ids(world, created_after=to_timestamp(middle)) == [runs[2]]
    assert ids(world, created_before=to_timestamp(middle)) == [runs[0]]
    assert ids(world, created_after=a_nanosecond_after(middle)) == [runs[2]]
    assert ids(world, created_before=a_nanosecond_after(middle)) == [runs[1], runs[0]]
    assert ids(world, created_after=a_nanosecond_after(middle - 1)) == [runs[2], runs[1]]


@pytest.mark.parametrize(
    "time",
    [Timestamp(seconds=2**62), Timestamp(seconds=-(2**62)), Timestamp(nanos=-1)],
    ids=["too late", "too early", "negative fraction"],
)
@pytest.mark.parametrize("name", ["created_after", "created_before"])
def test_a_time_out_of_range_is_an_invalid_filter(world: World, name: str, time: Timestamp) -> None:
    assert refusal(world, **{name: time}) == "invalid_filter"


def test_filters_and_cursors_go_together(world: World) -> None:
    wanted = [world.finished() for _ in range(3)]
    world.started()
    first = page(world, status=[COMPLETED], page_size=2)
    rest = page(world, status=[COMPLETED], page_size=2, page_token=first.next_page_token)
    assert [run.run_id for run in [*first.items, *rest.items]] == wanted[::-1]

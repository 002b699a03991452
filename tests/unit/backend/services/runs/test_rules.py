import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from backend.common.errors import ApiError
from backend.services.runs.rules import RunFilters, read_filters
from workflow_api.v1 import errors_pb2, runs_pb2


@pytest.mark.parametrize(
    ("nanos", "floor", "ceiling"),
    [(0, 0, 0), (500_000_000, 500, 500), (1_000_000, 1, 1), (1, 0, 1), (999_999_999, 999, 1000)],
)
def test_a_finer_time_than_a_millisecond_is_rounded_away_from_what_is_listed(
    nanos: int, floor: int, ceiling: int
) -> None:
    time = Timestamp(seconds=10, nanos=nanos)
    filters = read_filters(runs_pb2.ListRunsRequest(created_after=time, created_before=time))
    assert (filters.after_ms, filters.before_ms) == (10_000 + floor, 10_000 + ceiling)


def test_a_time_before_the_epoch_is_rounded_down_too() -> None:
    time = Timestamp(seconds=-1, nanos=999_500_000)
    filters = read_filters(runs_pb2.ListRunsRequest(created_after=time, created_before=time))
    assert (filters.after_ms, filters.before_ms) == (-1, 0)


def test_statuses_are_sorted_and_single() -> None:
    status = [runs_pb2.RUN_STATUS_RUNNING, runs_pb2.RUN_STATUS_FAILED, runs_pb2.RUN_STATUS_RUNNING]
    assert read_filters(runs_pb2.ListRunsRequest(status=status)).statuses == ("failed", "running")


@pytest.mark.parametrize("number", [runs_pb2.RUN_STATUS_UNSPECIFIED, 99])
def test_a_status_that_there_is_not_is_an_invalid_filter(number: int) -> None:
    request = runs_pb2.ListRunsRequest()
    request.status.append(runs_pb2.RunStatus.ValueType(number))
    with pytest.raises(ApiError) as caught:
        read_filters(request)
    assert caught.value.reason == errors_pb2.ERROR_REASON_INVALID_FILTER
    assert caught.value.message.startswith("status must be among queued, running, ")


def test_no_filter_narrows_nothing() -> None:
    assert read_filters(runs_pb2.ListRunsRequest()) == RunFilters()
    assert RunFilters().equalities() == {}


def test_the_upper_bound_is_the_earlier_of_created_before_and_the_position() -> None:
    filters = RunFilters(before_ms=500)
    assert filters.bounds((700, "run_z"))["upper_created_at"] == 500
    assert filters.bounds((500, "run_a"))["upper_run_id"] == ""
    bounds = filters.bounds((300, "run_a"))
    assert (bounds["upper_created_at"], bounds["upper_run_id"]) == (300, "run_a")


def test_the_lower_bound_of_the_oldest_first_is_the_later_of_created_after_and_the_position() -> None:
    filters = RunFilters(after_ms=500, oldest_first=True)
    assert filters.bounds((300, "run_z"))["lower_created_at"] == 501
    bounds = filters.bounds((700, "run_a"))
    assert (bounds["lower_created_at"], bounds["lower_run_id"]) == (700, "run_a")
    assert bounds["upper_run_id"] == ""

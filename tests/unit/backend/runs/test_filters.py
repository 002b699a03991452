from datetime import UTC, datetime

import pytest

from backend.errors import ApiError
from backend.runs.filters import RunFilters, read_filters
from workflow_api.v1 import errors_pb2, runs_pb2

TEN = int(datetime(2026, 9, 24, 10, tzinfo=UTC).timestamp() * 1000)


def after(text: str) -> int | None:
    return read_filters(runs_pb2.ListRunsRequest(created_after=text)).after_ms


def before(text: str) -> int | None:
    return read_filters(runs_pb2.ListRunsRequest(created_before=text)).before_ms


@pytest.mark.parametrize(
    "text",
    [
        "2026-09-24T10:00:00Z",
        "2026-09-24T10:00:00",
        "2026-09-24t10:00z",
        "2026-09-24T10",
        "2026-09-24T10:00:00.000+00:00",
        "2026-09-24T10:00:00,0-00:00",
        "2026-09-24T12:00:00+02:00",
        "2026-09-24T12:00:00 02:00",
        "2026-09-24T04:30:00-0530",
        "2026-09-24T11+01",
        "20260924T100000Z",
        "20260924T1000",
    ],
)
def test_an_iso_date_time_is_read_to_the_instant(text: str) -> None:
    assert (after(text), before(text)) == (TEN, TEN)


@pytest.mark.parametrize(
    ("fraction", "floor", "ceiling"),
    [(".5", 500, 500), (".001", 1, 1), (".0010", 1, 1), (".0001", 0, 1), (".9999999999999", 999, 1000)],
)
def test_a_finer_fraction_than_a_millisecond_is_heard_exactly(fraction: str, floor: int, ceiling: int) -> None:
    text = f"2026-09-24T10:00:00{fraction}Z"
    assert (after(text), before(text)) == (TEN + floor, TEN + ceiling)


def test_a_time_before_the_epoch_is_rounded_down_too() -> None:
    assert (after("1969-12-31T23:59:59.9995Z"), before("1969-12-31T23:59:59.9995Z")) == (-1, 0)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_the_ends_of_time_do_not_overflow(text: str) -> None:
    assert isinstance(after(text), int)


@pytest.mark.parametrize(
    "text",
    [
        "2026-09-24",
        "20260924",
        "2026-09-24T",
        "2026-09-24 10:00:00",
        "2026-09-24T10:00:00+",
        "2026-09-24T10:00:00++02:00",
        "2026-09-24T10:00:00+02:00:30",
        "2026-09-24T10:00:00+24:00",
        "2026-09-24T10:00:00 Z",
        "2026-09-24T10:00.5Z",
        "2026-09-24T10:00:00.Z",
        "2026-09-24T10:0000Z",
        "2026-0924T10:00:00Z",
        "2026-02-30T10:00:00Z",
        "2026-09-24T25:00:00Z",
        "2026-09-24T10:61:00Z",
        "2026-W39-4T10:00:00Z",
        "0000-01-01T00:00:00Z",
        "+2026-09-24T10:00:00Z",
        "٢٠٢٦-09-24T10:00:00Z",
        "1790000000",
        "now",
    ],
)
def test_what_is_no_iso_date_time_is_an_invalid_filter(text: str) -> None:
    for read in (after, before):
        with pytest.raises(ApiError) as caught:
            read(text)
        assert caught.value.reason == errors_pb2.ERROR_REASON_INVALID_FILTER
        assert "must be an ISO 8601 date-time" in caught.value.message


def test_statuses_are_trimmed_sorted_and_single() -> None:
    assert read_filters(runs_pb2.ListRunsRequest(status=" running ,failed,running")).statuses == ("failed", "running")


def test_no_filter_narrows_nothing() -> None:
    assert read_filters(runs_pb2.ListRunsRequest()) == RunFilters()
    assert RunFilters().equalities() == {}


def test_the_upper_bound_is_the_earlier_of_created_before_and_the_position() -> None:
    filters = RunFilters(before_ms=500)
    assert filters.bounds((700, "run_z"))["upper_created_at"] == 500
    assert filters.bounds((500, "run_a"))["upper_run_id"] == ""
    bounds = filters.bounds((300, "run_a"))
    assert (bounds["upper_created_at"], bounds["upper_run_id"]) == (300, "run_a")

"""Where and when a key may be used. (contract 5.6 to 5.9)"""

import time

import pytest

from tests.contract.conftest import NewCaller
from tests.support.expect import refused


@pytest.mark.parametrize(
    "ranges", [["127.0.0.0/8"], ["10.0.0.0/8", "127.0.0.1/32"], ["2001:db8::/32", "127.0.0.0/30"], ["0.0.0.0/0"], []]
)
def test_a_source_inside_the_allow_list_is_admitted(new_caller: NewCaller, ranges: list[str]) -> None:
    assert new_caller(source_allow_list=ranges).get("/me").status == 200


@pytest.mark.parametrize("ranges", [["10.0.0.0/8"], ["::/0"], ["127.0.0.2/32", "128.0.0.0/8"]])
def test_a_source_outside_the_allow_list_is_forbidden(new_caller: NewCaller, ranges: list[str]) -> None:
    refused(new_caller(source_allow_list=ranges).get("/me"), 403, "forbidden")


def test_forwarded_addresses_of_the_caller_are_not_trusted(new_caller: NewCaller) -> None:
    caller = new_caller(source_allow_list=["10.0.0.0/8"])
    for name in ("X-Forwarded-For", "X-Real-IP", "CloudFront-Viewer-Address", "Forwarded"):
        value = "for=10.0.0.1" if name == "Forwarded" else "10.0.0.1"
        refused(caller.get("/me", headers={name: value}), 403, "forbidden")


def test_an_untrusted_forwarded_address_does_not_refuse_a_caller(new_caller: NewCaller) -> None:
    caller = new_caller(source_allow_list=["127.0.0.0/8"])
    assert caller.get("/me", headers={"X-Forwarded-For": "10.0.0.1"}).status == 200


def hours_from_now(start: int, end: int) -> tuple[int, int]:
    hour = time.gmtime().tm_hour
    return (hour + start) % 24, (hour + end) % 24


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (0, 3), (-12, 4)])
def test_a_call_inside_the_hours_is_admitted(new_caller: NewCaller, start: int, end: int) -> None:
    """One of these windows wraps midnight at whatever hour the test runs."""
    assert new_caller(hours=hours_from_now(start, end)).get("/me").status == 200


@pytest.mark.parametrize(("start", "end"), [(2, 4), (3, 23), (-5, -1), (-2, 0)])
def test_a_call_outside_the_hours_is_refused_with_the_hours(new_caller: NewCaller, start: int, end: int) -> None:
    hours = hours_from_now(start, end)
    details = {"valid_hours_utc": {"start_hour": hours[0], "end_hour": hours[1]}}
    refused(new_caller(hours=hours).get("/me"), 403, "outside_time_window", details)

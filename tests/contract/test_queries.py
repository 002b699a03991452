"""Query parameters. (contract 4.14 to 4.18)"""

import pytest

from tests.support.client import Caller
from tests.support.expect import invalid, refused
from tests.support.wire import exchange, request

BAD_INTEGERS = ("0", "101", "-1", "1_0", "+5", "5.0", "%205", "5%20", "five", "", "%D9%A3", "0x5", "9" * 19, "1e1")


@pytest.mark.parametrize("value", BAD_INTEGERS)
@pytest.mark.parametrize("path", ["/runs", "/workflows"])
def test_a_bad_limit_is_refused_by_name(resident: Caller, path: str, value: str) -> None:
    invalid(resident.get(f"{path}?limit={value}"), "limit")


@pytest.mark.parametrize("value", ["1", "100", "05"])
@pytest.mark.parametrize("path", ["/runs", "/workflows"])
def test_a_limit_within_its_bounds_is_taken(resident: Caller, path: str, value: str) -> None:
    assert resident.get(f"{path}?limit={value}").status == 200


@pytest.mark.parametrize(("value", "status"), [("0", 400), ("1", 200), ("500", 200), ("501", 400)])
def test_the_bounds_of_an_event_page(resident: Caller, echo_run: dict[str, str], value: str, status: int) -> None:
    assert resident.get(f"/runs/{echo_run['run_id']}/events?limit={value}").status == status


@pytest.mark.parametrize("value", ["-1", "x", "", "1.0", "9" * 19])
def test_a_bad_after_seq_is_refused_by_name(resident: Caller, value: str) -> None:
    invalid(resident.get(f"/runs/run_none/events?after_seq={value}"), "after_seq")


@pytest.mark.parametrize("value", ["%FF", "%ED%A0%80", "%zz", "%", "\t", "%00"])
@pytest.mark.parametrize("name", ["q", "cursor", "limit"])
def test_a_query_of_any_bytes_is_answered_or_refused(resident: Caller, name: str, value: str) -> None:
    path = f"/workflows?{name}=".encode() + value.encode()
    answer = exchange(resident.address, request("GET", path.decode(), *resident.credential_headers))
    assert answer.status in {200, 400}, answer
    assert answer.code in {None, "invalid_request", "invalid_cursor"}


def test_unknown_query_parameters_are_ignored(resident: Caller) -> None:
    assert resident.get("/runs?colour=red&limit=5&page=2").status == 200
    assert resident.get("/me?limit=none").status == 200


@pytest.mark.parametrize("path", ["/runs?limit=5&limit=5", "/workflows?limit=1&limit=2", "/runs?%6Cimit=1&limit=1"])
def test_a_repeated_query_parameter_is_refused_by_name(resident: Caller, path: str) -> None:
    invalid(resident.get(path), "limit")


def test_problems_of_path_and_query_are_reported_together(resident: Caller) -> None:
    path = f"/runs/{'r' * 129}/events?limit=0&after_seq=-1&segment={'s' * 129}"
    invalid(resident.get(path), "run_id", "limit", "after_seq", "segment")


def test_a_bad_limit_comes_before_a_bad_filter_and_that_before_a_bad_cursor(resident: Caller) -> None:
    invalid(resident.get("/runs?limit=0&status=none&cursor=none"), "limit")
    refused(resident.get("/runs?status=none&cursor=none"), 400, "invalid_filter")
    refused(resident.get("/runs?cursor=none"), 400, "invalid_cursor")


def test_an_empty_cursor_or_q_counts_as_absent(resident: Caller, flows: dict[str, str]) -> None:
    everything = resident.get("/workflows?limit=100").json()
    assert resident.get("/workflows?q=&cursor=&limit=100").json() == everything
    assert resident.get("/runs?cursor=").status == 200


@pytest.mark.parametrize("identifier", ["r" * 128, "%C3%A9" * 128])
def test_an_id_of_its_greatest_length_is_looked_up(resident: Caller, identifier: str) -> None:
    """Lengths count code points."""
    refused(resident.get(f"/runs/{identifier}"), 404, "run_not_found")
    refused(resident.get(f"/workflows/{identifier}"), 404, "workflow_not_found")


@pytest.mark.parametrize(
    "suffix", ["", "/approvals", "/steps", "/events", "/outputs", "/outputs.zip", "/pii-redaction"]
)
def test_a_run_id_beyond_its_length_is_refused_by_name(resident: Caller, suffix: str) -> None:
    invalid(resident.get(f"/runs/{'r' * 129}{suffix}"), "run_id")


def test_an_output_id_of_2048_letters_is_looked_up_and_one_more_is_refused(
    resident: Caller, echo_run: dict[str, str]
) -> None:
    """The request line of 2,048 encoded letters is longer than 24 KiB."""
    path = f"/runs/{echo_run['run_id']}/outputs"
    refused(resident.get(f"{path}/{'%F0%9F%98%80' * 2048}/content"), 404, "output_not_found")
    invalid(resident.get(f"{path}/{'%C3%A9' * 2049}/content"), "output_id")

"""Two keys see nothing of each other's runs, and cannot tell a run of the other from an absent one. (contract 3.7)"""

from typing import Any

import pytest

from tests.contract.conftest import NewCaller
from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.routes import RUN_ROUTES, Route
from tests.support.wire import Answer

ABSENT = "run_" + "0" * 26


def comparable(answer: Answer) -> tuple[int, set[str], dict[str, Any]]:
    error = {**answer.error, "request_id": None}
    return answer.status, {name.lower() for name in answer.headers}, error


@pytest.mark.parametrize("route", RUN_ROUTES, ids=str)
@pytest.mark.parametrize("kind", ["finished", "parked"])
def test_a_run_of_another_key_and_an_absent_one_are_indistinguishable(
    resident: Caller,
    other_caller: Caller,
    tree_run: dict[str, Any],
    parked_run: dict[str, Any],
    route: Route,
    kind: str,
) -> None:
    foreign = tree_run if kind == "finished" else parked_run
    output_id = resident.outputs(tree_run["run_id"])["grow/table.csv"]["output_id"]
    answers = [
        other_caller.call(route.method, route.path(run_id=run_id, output_id=output_id))
        for run_id in (foreign["run_id"], ABSENT)
    ]
    for answer in answers:
        refused(answer, 404, "run_not_found")
    assert comparable(answers[0]) == comparable(answers[1])
    assert resident.run(foreign["run_id"]) == foreign


def test_a_list_holds_no_runs_of_other_keys_whatever_the_filter(
    other_caller: Caller, echo_run: dict[str, Any], flows: dict[str, str]
) -> None:
    for query in (
        {},
        {"workflow_id": flows["Echo"]},
        {"client_reference": echo_run["client_reference"]},
        {"status": "completed"},
    ):
        assert other_caller.get("/runs", **query).json() == {"items": [], "next_cursor": None}


def test_an_output_of_another_run_is_not_found_under_this_one(
    resident: Caller, echo_run: dict[str, Any], tree_run: dict[str, Any]
) -> None:
    output_id = resident.outputs(tree_run["run_id"])["grow/table.csv"]["output_id"]
    refused(resident.get(f"/runs/{echo_run['run_id']}/outputs/{output_id}/content"), 404, "output_not_found")


def test_a_segment_of_another_run_is_not_found_under_this_one(
    resident: Caller, echo_run: dict[str, Any], tree_run: dict[str, Any]
) -> None:
    segment = resident.events(tree_run["run_id"])["segment_id"]
    refused(resident.get(f"/runs/{echo_run['run_id']}/events", segment=segment), 404, "segment_not_found")


def test_an_idempotency_key_of_another_caller_replays_nothing(new_caller: NewCaller, flows: dict[str, str]) -> None:
    first, second = new_caller(), new_caller()
    run_id = first.start(flows["Echo"], "shared", input_text="x").json()["run_id"]
    assert second.start(flows["Echo"], "shared", input_text="x").json()["run_id"] != run_id


@pytest.mark.parametrize("segment", ["seg_none", "", "%00", "s" * 128])
def test_an_absent_run_is_not_found_whatever_segment_is_asked_for(resident: Caller, segment: str) -> None:
    refused(resident.get(f"/runs/{ABSENT}/events?segment={segment}"), 404, "run_not_found")

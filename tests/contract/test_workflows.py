"""The three workflow routes. (contract 11)"""

from typing import Any

import pytest

from tests.contract.conftest import NewCaller
from tests.support.client import Caller
from tests.support.expect import invalid, is_timestamp, refused

FIELDS = {
    "workflow_id",
    "name",
    "description",
    "status",
    "version",
    "readiness",
    "max_run_hours",
    "parallel_steps",
    "pii_policy",
    "result_schema_version",
    "created_at",
    "updated_at",
    "links",
}


def names(caller: Caller, **query: Any) -> list[str]:
    answer = caller.get("/workflows", **{"limit": 100, **query})
    assert answer.status == 200, answer
    return [item["name"] for item in answer.json()["items"]]


def test_the_list_holds_active_workflows_only_by_name(resident: Caller, flows: dict[str, str]) -> None:
    listed = names(resident)
    assert set(listed) & set(flows) == set(flows) - {"Drafted", "Withdrawn"}
    assert listed == sorted(listed) or listed == sorted(listed, key=str.casefold)


def test_a_page_is_twenty_unless_asked_otherwise(resident: Caller, flows: dict[str, str]) -> None:
    answer = resident.get("/workflows").json()
    assert set(answer) == {"items", "next_cursor"}
    assert len(answer["items"]) == 20
    assert answer["next_cursor"]


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_pages_together_are_the_whole_list(resident: Caller, flows: dict[str, str], limit: int) -> None:
    seen: list[str] = []
    cursor = ""
    while True:
        page = resident.get("/workflows", limit=limit, cursor=cursor).json()
        assert len(page["items"]) <= limit
        seen += [item["name"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = page["next_cursor"]
    assert seen == names(resident)


def test_q_is_a_prefix_in_any_case(resident: Caller, flows: dict[str, str]) -> None:
    assert names(resident, q="two G") == ["Two gates"]
    assert names(resident, q="gates") == []
    assert names(resident, q="T") == [name for name in names(resident) if name.startswith("T")]


def test_q_folds_case_beyond_ascii_and_takes_wildcards_literally(resident: Caller, flows: dict[str, str]) -> None:
    assert names(resident, q="äPFEL 50%") == ["Äpfel 50%_off"]
    assert names(resident, q="Äpfel 50%_") == ["Äpfel 50%_off"]
    assert len(names(resident, q="Äpfel 50")) == 2
    assert names(resident, q="%") == []
    assert names(resident, q="_") == []
    assert names(resident, q="Äpfel__") == []


def test_q_with_a_cursor_pages_the_filtered_list(resident: Caller, flows: dict[str, str]) -> None:
    wanted = names(resident, q="t")
    first = resident.get("/workflows", q="t", limit=1).json()
    second = resident.get("/workflows", q="t", limit=100, cursor=first["next_cursor"]).json()
    assert [item["name"] for item in first["items"] + second["items"]] == wanted


def test_q_of_two_hundred_characters_fits_and_one_more_is_refused(resident: Caller) -> None:
    assert names(resident, q="é" * 200) == []
    invalid(resident.get("/workflows", q="é" * 201), "q")


def test_an_unknown_cursor_is_invalid(resident: Caller) -> None:
    refused(resident.get("/workflows?cursor=none"), 400, "invalid_cursor")


def test_an_explicit_key_lists_its_active_workflows_only(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(workflow_ids=[flows["Echo"], flows["Gate"], flows["Drafted"], flows["Withdrawn"]])
    assert names(caller) == ["Echo", "Gate"]


def test_a_workflow_is_shown_in_full_and_alike_on_both_routes(resident: Caller, flows: dict[str, str]) -> None:
    record = resident.get(f"/workflows/{flows['Echo']}").json()
    [item] = [item for item in resident.get("/workflows", q="Echo").json()["items"] if item["name"] == "Echo"]
    assert record == item
    assert set(record) == FIELDS
    assert is_timestamp(record.pop("created_at"))
    assert is_timestamp(record.pop("updated_at"))
    path = f"/api/v1/workflows/{flows['Echo']}"
    assert record == {
        "workflow_id": flows["Echo"],
        "name": "Echo",
        "description": "Gives back its text.",
        "status": "active",
        "version": 1,
        "readiness": {"ready": True, "reasons": []},
        "max_run_hours": None,
        "parallel_steps": 3,
        "pii_policy": record["pii_policy"],
        "result_schema_version": "7",
        "links": {"self": path, "parameters": f"{path}/parameters", "runs": f"{path}/runs"},
    }
    assert record["pii_policy"]["mode"] == "off"


def test_a_workflow_outside_the_allow_list_is_like_one_that_does_not_exist(
    new_caller: NewCaller, flows: dict[str, str]
) -> None:
    caller = new_caller(workflow_ids=[flows["Echo"]])
    for suffix in ("", "/parameters"):
        outside = caller.get(f"/workflows/{flows['Gate']}{suffix}")
        absent = caller.get(f"/workflows/wf_{'0' * 26}{suffix}")
        for answer in (outside, absent):
            refused(answer, 404, "workflow_not_found")
        assert outside.error["message"] == absent.error["message"]
    refused(caller.start(flows["Gate"]), 404, "workflow_not_found")
    refused(caller.get(f"/workflows/{flows['Drafted']}x"), 404, "workflow_not_found")


def test_a_draft_outside_an_explicit_list_is_not_found(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(workflow_ids=[flows["Echo"]])
    refused(caller.get(f"/workflows/{flows['Drafted']}"), 404, "workflow_not_found")
    refused(caller.get(f"/workflows/{flows['Withdrawn']}/parameters"), 404, "workflow_not_found")


@pytest.mark.parametrize("name", ["Drafted", "Withdrawn"])
@pytest.mark.parametrize("suffix", ["", "/parameters"])
def test_a_workflow_that_is_not_active_is_refused_to_an_all_active_key(
    resident: Caller, flows: dict[str, str], name: str, suffix: str
) -> None:
    refused(resident.get(f"/workflows/{flows[name]}{suffix}"), 409, "workflow_not_active")


@pytest.mark.parametrize(("name", "status"), [("Drafted", "draft"), ("Withdrawn", "inactive")])
def test_a_listed_workflow_that_is_not_active_is_readable_and_says_why(
    new_caller: NewCaller, flows: dict[str, str], name: str, status: str
) -> None:
    caller = new_caller(workflow_ids=[flows[name]])
    record = caller.get(f"/workflows/{flows[name]}").json()
    assert record["status"] == status
    assert record["version"] == 1
    assert record["readiness"]["ready"] is False
    assert any(status in reason.lower() or "not active" in reason for reason in record["readiness"]["reasons"])
    assert caller.get(f"/workflows/{flows[name]}/parameters").status == 200
    refused(caller.start(flows[name]), 409, "workflow_not_active")


def test_a_workflow_that_is_not_ready_shows_its_reasons_beside_its_status(
    new_caller: NewCaller, flows: dict[str, str]
) -> None:
    record = new_caller(workflow_ids=[flows["Withdrawn"]]).get(f"/workflows/{flows['Withdrawn']}").json()
    reasons = record["readiness"]["reasons"]
    assert len(reasons) >= 2
    assert any("agent" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("name", "word"), [("Unstaffed", "agent"), ("Retired ground", "environment"), ("From a bucket", "connect")]
)
def test_everything_that_blocks_a_workflow_is_among_its_reasons(
    resident: Caller, flows: dict[str, str], name: str, word: str
) -> None:
    readiness = resident.get(f"/workflows/{flows[name]}").json()["readiness"]
    assert readiness["ready"] is False
    assert any(word in reason.lower() for reason in readiness["reasons"])


def test_parameters_are_shown_with_their_bounds(resident: Caller, flows: dict[str, str]) -> None:
    answer = resident.get(f"/workflows/{flows['Typed']}/parameters").json()
    assert set(answer) == {"workflow_id", "version", "parameters"}
    assert (answer["workflow_id"], answer["version"]) == (flows["Typed"], 1)
    plain: dict[str, Any] = {"description": None, "required": False, "default": None}
    assert answer["parameters"] == [
        {
            "name": "word",
            "type": "string",
            "description": "Any word.",
            "required": True,
            "default": None,
            "min_length": 2,
            "max_length": 5,
            "pattern": "[a-z]+",
        },
        {**plain, "name": "language", "type": "string", "default": "en", "enum": ["en", "fr"]},
        {**plain, "name": "number", "type": "integer", "minimum": 1, "maximum": 9},
        {**plain, "name": "share", "type": "number", "minimum": 0, "maximum": 1},
        {**plain, "name": "loud", "type": "boolean", "default": False},
        {**plain, "name": "day", "type": "date"},
        {**plain, "name": "extra", "type": "json"},
    ]


def test_an_s3_prefix_parameter_shows_its_connector_and_bounds(resident: Caller, flows: dict[str, str]) -> None:
    [parameter] = resident.get(f"/workflows/{flows['From a bucket']}/parameters").json()["parameters"]
    assert parameter["type"] == "s3_prefix"
    assert (parameter["max_objects"], parameter["max_bytes"]) == (7, 1000)
    assert isinstance(parameter["connector_id"], str)


def test_a_workflow_without_parameters_declares_none(resident: Caller, flows: dict[str, str]) -> None:
    assert resident.get(f"/workflows/{flows['Echo']}/parameters").json()["parameters"] == []

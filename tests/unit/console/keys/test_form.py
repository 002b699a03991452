from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from console.keys.form import SCOPES_IN_WORDS, KeyForm, blank_form, create_request, edit_request, form_of
from contract.fields import SCOPES
from contract.refusals import Refusal
from tests.unit.console.recorded_services import KEY_ID, key_record
from workflow_api.v1.keys_pb2 import (
    KEY_PRIORITY_HIGH,
    KEY_PRIORITY_LOW,
    KEY_PRIORITY_NORMAL,
    AllowedHours,
    CreateKeyRequest,
    SourceAllowList,
    UpdateKeyRequest,
    WorkflowAccess,
)
from workflow_api.v1.options_pb2 import SCOPE_RUNS_CREATE, SCOPE_RUNS_READ, SCOPE_WORKFLOWS_READ


def form(**other: Any) -> KeyForm:
    return blank_form()._replace(**{"name": "warehouse", "scopes": ["workflows:read"], "workflows": "all", **other})


def refused(**other: Any) -> Any:
    with pytest.raises(Refusal) as caught:
        create_request(form(**other))
    return caught.value.details


def test_a_new_key_has_the_defaults_of_the_contract() -> None:
    assert create_request(form()) == CreateKeyRequest(
        name="warehouse",
        scopes=[SCOPE_WORKFLOWS_READ],
        workflow_access=WorkflowAccess(mode=WorkflowAccess.MODE_ALL_ACTIVE),
        lifetime=Duration(seconds=90 * 86_400),
        rate_limit_rpm=60,
        daily_run_quota=100,
        max_concurrent_runs=10,
        priority=KEY_PRIORITY_NORMAL,
    )


def test_the_priority_is_sent_where_it_changes_and_another_word_is_refused() -> None:
    assert create_request(form(priority="high")).priority == KEY_PRIORITY_HIGH
    record = key_record()
    record.priority = KEY_PRIORITY_LOW
    same = form_of(record)
    assert not edit_request(record, same).HasField("priority")
    assert edit_request(record, same._replace(priority="normal")).priority == KEY_PRIORITY_NORMAL
    assert refused(priority="urgent") == [{"name": "priority", "reason": "must be among: low, normal, high"}]


def test_scopes_are_sent_as_chosen() -> None:
    asked = create_request(form(scopes=["runs:read", "runs:create"]))
    assert list(asked.scopes) == [SCOPE_RUNS_CREATE, SCOPE_RUNS_READ]


def test_workflows_that_are_ticked_are_all_that_a_new_key_may_use() -> None:
    listed = create_request(form(workflow_ids=["wf_1"], workflows="listed")).workflow_access
    assert listed == WorkflowAccess(mode=WorkflowAccess.MODE_EXPLICIT, workflow_ids=["wf_1"])


def test_all_workflows_and_ticked_ones_contradict_each_other_and_are_refused_at_their_field() -> None:
    (problem,) = refused(workflows="all", workflow_ids=["wf_1"])
    assert problem == {"name": "workflow_access", "reason": "must be only these while any is ticked below"}
    (problem,) = refused(workflows="listed")
    assert problem == {"name": "workflow_access", "reason": "must be all workflows while none is ticked below"}


@pytest.mark.parametrize("workflows", ["", "ticked", "junk"])
@pytest.mark.parametrize("ticked", [[], ["wf_1"]])
def test_no_key_is_made_before_its_workflows_are_chosen(workflows: str, ticked: list[str]) -> None:
    problem = {"name": "workflow_access", "reason": "must be chosen: all workflows, or only these"}
    assert blank_form().workflows == ""
    assert refused(workflows=workflows, workflow_ids=ticked) == [problem]


def test_source_ranges_are_one_on_each_line() -> None:
    asked = create_request(form(source_allow_list="203.0.113.0/24\n\n  2001:db8::/32 \n"))
    assert list(asked.source_allow_list) == ["203.0.113.0/24", "2001:db8::/32"]


@pytest.mark.parametrize("typed", ["", "ten", "1.5", "1e3", "٣", "99999999999"])
def test_a_number_that_cannot_be_read_is_refused_at_its_field(typed: str) -> None:
    assert refused(rate_limit_rpm=typed) == [{"name": "rate_limit_rpm", "reason": "must be a whole number"}]


def test_bounds_of_numbers_are_left_to_the_backend() -> None:
    assert create_request(form(rate_limit_rpm="-5")).rate_limit_rpm == -5


def test_one_hour_without_the_other_is_refused() -> None:
    (problem,) = refused(start_hour="8")
    assert problem["name"] == "allowed_hours"


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        create_request(form()._replace(scopes=["runs:all"]))
    assert caught.value.code == "invalid_request"


def test_an_edit_has_only_changed_fields() -> None:
    record = key_record(allowed_hours=AllowedHours(start_hour=8, end_hour=18), source_allow_list=["10.0.0.0/8"])
    assert edit_request(record, form_of(record)) == UpdateKeyRequest(key_id=KEY_ID)
    changed = form_of(record)._replace(rate_limit_rpm="61", source_allow_list="")
    assert edit_request(record, changed) == UpdateKeyRequest(
        key_id=KEY_ID, rate_limit_rpm=61, source_allow_list=SourceAllowList()
    )


def test_emptied_hours_clear_the_allowed_hours() -> None:
    record = key_record(allowed_hours=AllowedHours(start_hour=0, end_hour=6))
    changed = form_of(record)._replace(start_hour="", end_hour="")
    assert edit_request(record, changed) == UpdateKeyRequest(key_id=KEY_ID, clear_allowed_hours=True)


def test_every_scope_is_explained() -> None:
    assert SCOPES_IN_WORDS.keys() == SCOPES.keys()

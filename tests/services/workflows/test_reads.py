"""Listing and reading within the access of a key (contract 11)."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.services.calls import RefusedError
from tests.services.workflows.conftest import ALL_ACTIVE, LISTED, READY, RESOURCES, Workflows
from workflow_api.v1 import workflows_pb2
from workflow_api.v1.pii_policy_pb2 import PII_MODE_OFF

DRAFT = "kind: Workflow\nname: Draft\nsteps: [{step: a}]\n"
OFF = "kind: Workflow\nname: Off\nstatus: inactive\nsteps: [{step: a}]\n"


def named(*names: str) -> str:
    return "\n---\n".join(f"kind: Workflow\nname: {json.dumps(name)}\nstatus: active" for name in names)


def names(answer: Any) -> list[str]:
    return [item.name for item in answer.items]


def reason_of(call: Callable[[], Any]) -> str:
    with pytest.raises(RefusedError) as refused:
        call()
    return refused.value.reason


def test_a_key_lists_active_workflows_by_name(workflows: Workflows, add_key: Callable[..., str]) -> None:
    workflows.apply(DRAFT, OFF, named("b", "a", "B", "é", "Z"))
    assert names(workflows.list(add_key(ALL_ACTIVE))) == ["B", "Z", "a", "b", "é"]
    assert names(workflows.list(ALL_ACTIVE, include_inactive=True)) == ["B", "Z", "a", "b", "é"]
    assert names(workflows.list(include_inactive=True)) == ["B", "Draft", "Off", "Z", "a", "b", "é"]
    assert names(workflows.list()) == ["B", "Z", "a", "b", "é"]


def test_a_key_with_an_allow_list_lists_its_active_workflows(workflows: Workflows, add_key: Callable[..., str]) -> None:
    ready, other, draft = workflows.apply(READY, named("Other"), DRAFT)
    assert names(workflows.list(add_key(LISTED, [ready.id, draft.id]))) == ["Ready"]
    assert names(workflows.list(add_key(ALL_ACTIVE))) == ["Other", "Ready"]
    assert other.id != ready.id


def test_a_deleted_key_sees_no_workflows(workflows: Workflows) -> None:
    (made,) = workflows.apply(READY)
    assert not workflows.list("ak_gone00000000").items
    assert reason_of(lambda: workflows.get(made.id, "ak_gone00000000")) == "workflow_not_found"


def test_an_administrator_sees_a_workflow_as_a_key_does(workflows: Workflows, add_key: Callable[..., str]) -> None:
    ready, other, off = workflows.apply(READY, named("Other"), OFF)
    listed, every = add_key(LISTED, [ready.id, off.id]), add_key(ALL_ACTIVE)
    assert workflows.get_for_key(ready.id, listed) == workflows.get(ready.id, listed)
    assert workflows.get_for_key(off.id, listed).name == "Off"
    for workflow_id, key_id, reason in (
        (other.id, listed, "workflow_not_found"),
        (off.id, every, "workflow_not_active"),
        (ready.id, "ak_gone00000000", "workflow_not_found"),
    ):
        assert reason_of(partial(workflows.get_for_key, workflow_id, key_id)) == reason


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("", ["100% sure", "Straße", "ÉTÉ", "İs"]),
        ("é", ["ÉTÉ"]),
        ("STRASS", ["Straße"]),
        ("100%", ["100% sure"]),
        ("%", []),
        ("_", []),
        ("sure", []),
        ("i̇", ["İs"]),
    ],
)
def test_q_is_a_literal_prefix_without_regard_to_case(
    workflows: Workflows, add_key: Callable[..., str], q: str, found: list[str]
) -> None:
    workflows.apply(named("100% sure", "Straße", "ÉTÉ", "İs"))
    assert names(workflows.list(add_key(ALL_ACTIVE), q=q)) == found


def test_pages_follow_one_another_without_gap_or_repeat(workflows: Workflows, add_key: Callable[..., str]) -> None:
    everything = sorted(f"{n:03}" for n in range(45))
    workflows.apply(named(*everything))
    key_id = add_key(ALL_ACTIVE)
    first = workflows.list(key_id)
    assert len(first.items) == 20
    workflows.apply(named("019a"), READY)
    second = workflows.list(key_id, page_token=first.next_page_token, page_size=20)
    third = workflows.list(key_id, page_token=second.next_page_token, page_size=7)
    assert names(first) + names(second) + names(third) == sorted([*everything, "019a", "Ready"])
    assert not third.HasField("next_page_token")


def test_a_last_page_that_is_just_full_has_no_cursor(workflows: Workflows) -> None:
    workflows.apply(named("a", "b"))
    assert not workflows.list(page_size=2).HasField("next_page_token")
    assert workflows.list(page_size=1).HasField("next_page_token")


def test_a_cursor_of_another_key_or_changed_is_refused(workflows: Workflows, add_key: Callable[..., str]) -> None:
    ready, _ = workflows.apply(READY, named("Later"))
    cursor = workflows.list(add_key(ALL_ACTIVE), page_size=1).next_page_token
    add_key(LISTED, [ready.id])
    changed = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    for key_id, given in ((LISTED, cursor), (ALL_ACTIVE, changed), (ALL_ACTIVE, "x"), (None, cursor)):
        assert reason_of(partial(workflows.list, key_id, page_token=given)) == "invalid_cursor"


def test_a_workflow_shows_its_settings_and_readiness(workflows: Workflows) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    workflow = workflows.get(made.id)
    assert (workflow.workflow_id, workflow.name, workflow.description) == (made.id, "Ready", "Counts.")
    assert (workflow.version, workflow.parallel_steps) == (1, 3)
    assert workflow.readiness.ready
    assert not workflow.readiness.reasons
    assert not workflow.HasField("max_run_time")
    assert not workflow.HasField("result_schema_version")
    assert workflow.pii_policy.mode == PII_MODE_OFF
    assert workflow.created_at.seconds == 1_790_000_000


@pytest.mark.parametrize("route", ["get", "parameters"])
def test_an_all_active_key_gets_409_for_an_inactive_workflow_and_404_for_an_unknown_one(
    workflows: Workflows, add_key: Callable[..., str], route: str
) -> None:
    draft, off, ready = workflows.apply(DRAFT, OFF, READY)
    key_id = add_key(ALL_ACTIVE)
    read = getattr(workflows, route)
    assert read(ready.id, key_id).workflow_id == ready.id
    assert reason_of(lambda: read(draft.id, key_id)) == "workflow_not_active"
    assert reason_of(lambda: read(off.id, key_id)) == "workflow_not_active"
    assert reason_of(lambda: read("wf_unknown", key_id)) == "workflow_not_found"


@pytest.mark.parametrize("route", ["get", "parameters"])
def test_a_listed_draft_is_readable_and_what_is_not_listed_is_not_found(
    workflows: Workflows, add_key: Callable[..., str], route: str
) -> None:
    draft, off, ready = workflows.apply(DRAFT, OFF, READY)
    key_id = add_key(LISTED, [draft.id, off.id, "wf_unknown"])
    read = getattr(workflows, route)
    assert read(draft.id, key_id).workflow_id == draft.id
    assert read(off.id, key_id).workflow_id == off.id
    assert reason_of(lambda: read(ready.id, key_id)) == "workflow_not_found"
    assert reason_of(lambda: read("wf_unknown", key_id)) == "workflow_not_found"


def test_readiness_of_a_draft_says_so_beside_its_other_reasons(workflows: Workflows) -> None:
    draft, off = workflows.apply(DRAFT, OFF)
    assert list(workflows.get(draft.id).readiness.reasons) == ["The workflow is a draft.", "Step 'a' has no agent."]
    assert list(workflows.get(off.id).readiness.reasons) == ["The workflow is inactive.", "Step 'a' has no agent."]
    assert workflows.get(draft.id).version == 1


def test_a_workflow_that_was_never_active_shows_its_newest_version(workflows: Workflows) -> None:
    (draft,) = workflows.apply(DRAFT)
    workflows.apply(DRAFT.replace("{step: a}", "{step: b}") + "parameters: [{name: p, type: json}]\n")
    assert workflows.get(draft.id).version == 2
    assert (workflows.parameters(draft.id).version, len(workflows.parameters(draft.id).parameters)) == (2, 1)


def test_parameters_show_what_is_declared_and_nothing_else(workflows: Workflows) -> None:
    *_, made = workflows.apply(
        RESOURCES,
        """
        kind: Workflow
        name: P
        status: active
        parameters:
          - {name: documents, type: s3_prefix, connector: inbox, required: true, description: Where they are}
          - {name: language, type: string, enum: [en, fr], default: en, min_length: 2, max_length: 2, pattern: "[a-z]*"}
          - {name: share, type: number, minimum: 0, maximum: 1.5, default: 0}
          - {name: extra, type: json, default: {a: [1]}}
        """,
    )
    answer = workflows.parameters(made.id)
    documents, language, share, extra = answer.parameters
    assert (answer.workflow_id, answer.version) == (made.id, 1)
    assert (documents.type, documents.required, documents.description) == ("s3_prefix", True, "Where they are")
    assert documents.connector_id.startswith("con_")
    assert (documents.max_objects, documents.max_bytes) == (500, 2 * 2**30)
    assert not documents.HasField("default")
    assert (json.loads(language.enum), json.loads(language.default)) == (["en", "fr"], "en")
    assert (language.min_length, language.max_length, language.pattern) == (2, 2, "[a-z]*")
    assert not language.HasField("connector_id")
    assert not language.HasField("description")
    assert (share.minimum, share.maximum, share.default) == ("0", "1.5", "0")
    assert (extra.default, extra.required) == ('{"a":[1]}', False)


def test_terms_follow_every_change_of_a_resource(workflows: Workflows) -> None:
    (made,) = workflows.apply(READY.replace("agent: counter", "agent: counter, connectors: [inbox]"))
    seen = [workflows.terms(made.id).reasons]

    def note() -> None:
        seen.append(workflows.terms(made.id).reasons)

    workflows.apply(RESOURCES)
    note()
    workflows.record_test("inbox", passed=True)
    note()
    workflows.apply(RESOURCES.replace("bucket: docs", "bucket: other"))
    note()
    workflows.record_test("inbox", passed=False)
    note()
    workflows.record_test("inbox", passed=True)
    workflows.apply(RESOURCES.replace("name: standard", "name: standard\n    status: inactive"))
    note()
    assert [len(reasons) for reasons in seen] == [3, 1, 0, 0, 1, 1]
    assert seen[4] == ("Connector 'inbox' needs attention: its last connection test failed.",)
    assert seen[5] == ("Environment 'standard' is not active.",)


def test_terms_are_cached_while_nothing_changes(workflows: Workflows) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    assert workflows.terms(made.id) is workflows.terms(made.id)
    assert workflows.terms(made.id).refusal() is None


def test_a_start_is_refused_for_status_then_version_then_readiness(workflows: Workflows) -> None:
    (made,) = workflows.apply(READY)

    def refusal(version: int | None) -> str:
        return str(workflows.terms(made.id, version).refusal().message)

    assert workflows.terms("wf_unknown") is None
    assert refusal(1) == "The workflow is not ready to run."
    assert refusal(2) == refusal(2**62) == "The workflow has no such version."
    workflows.set_status(made.id, workflows_pb2.WORKFLOW_STATUS_INACTIVE)
    assert refusal(2) == "The workflow is not active."


def test_an_older_version_keeps_what_it_declared(workflows: Workflows) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    workflows.apply(READY + "    parameters: [{name: p, type: json}]\n")
    assert [len(workflows.terms(made.id, version).parameters) for version in (1, 2, None)] == [0, 1, 1]
    assert [workflows.terms(made.id, version).version for version in (1, 2, None)] == [1, 2, 2]

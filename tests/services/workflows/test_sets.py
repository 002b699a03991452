"""Sets: an apply for one set changes and prunes only what that set owns, all or nothing."""

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.services.calls import Caller, RefusedError
from workflow_api.v1 import audit_pb2, definitions_pb2, runs_pb2, workflows_pb2
from workflow_api_testing import TestBackend

AGENT = """
kind: Agent
name: counter
type: python
code: "def run(context): return 1"
"""
ENVIRONMENT = "\nkind: Environment\nname: standard\n"
CONNECTOR = "\nkind: Connector\nname: inbox\ntype: s3\nbucket: docs\n"
GRAPH = "\nkind: KnowledgeGraph\nname: contracts\n"
WORKFLOW = """
kind: Workflow
name: Ready
status: active
steps: [{step: count, agent: counter, environment: standard, connectors: [inbox]}]
publish: [{knowledge_graph: contracts}]
"""
PLAIN = "\nkind: Workflow\nname: Plain\nstatus: active\nsteps: [{step: look, approval: {title: Look}}]\n"
PARENT = "\nkind: Workflow\nname: Parent\nstatus: active\nsteps: [{step: child, workflow: Plain}]\n"
ALL = (ENVIRONMENT, AGENT, CONNECTOR, GRAPH, WORKFLOW)
CHANGED = AGENT.replace("return 1", "return 2")


class Sets:
    """Applies manifests for sets, and reads who owns what."""

    def __init__(self, call: Caller) -> None:
        self.call = call

    def apply(self, *texts: str, set_name: str | None = None, **options: Any) -> dict[str, Any]:
        """Returns the outcome of each definition by its name."""
        file = workflows_pb2.ManifestFile(name="f.yaml", content="---".join(texts))
        request = workflows_pb2.ApplyManifestsRequest(files=[file], set_name=set_name, **options)
        return {item.name: item for item in self.call("ApplyManifests", request).items}

    def refusal(self, *texts: str, set_name: str | None = None, **options: bool) -> RefusedError:
        with pytest.raises(RefusedError) as refused:
            self.apply(*texts, set_name=set_name, **options)
        assert refused.value.reason == "invalid_request"
        return refused.value

    def owned(self) -> dict[str, list[str]]:
        """Returns the names of what each set owns."""
        answer = self.call("ListSets", definitions_pb2.ListSetsRequest())
        return {item.name: sorted(member.name for member in item.members) for item in answer.items}

    def names(self) -> set[str]:
        """Returns the names of all workflows and resources."""
        workflows = self.call("ListWorkflows", workflows_pb2.ListWorkflowsRequest(include_inactive=True)).items
        resources = self.call("FindResources", definitions_pb2.FindResourcesRequest(text="", most=50)).items
        return {item.name for item in (*workflows, *resources)}

    def delete(self, kind: str, name: str) -> None:
        self.call("DeleteDefinition", definitions_pb2.DeleteDefinitionRequest(kind=kind, definition=name))

    def audit(self, target: str) -> list[tuple[str, dict[str, Any]]]:
        """Returns action and details of the records about a definition, newest first."""
        answer = self.call("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(target=target))
        return [(record.action, json.loads(record.details)) for record in answer.items]


@pytest.fixture
def sets(backend: TestBackend) -> Sets:
    return Sets(Caller.of_backend(backend))


def test_a_set_owns_every_document_of_its_files(sets: Sets) -> None:
    applied = sets.apply(*ALL, set_name="billing")
    assert {item.set_name for item in applied.values()} == {"billing"}
    assert not any(item.HasField("previous_set") for item in applied.values())
    assert sets.owned() == {"billing": ["Ready", "contracts", "counter", "inbox", "standard"]}
    again = sets.apply(*ALL, set_name="billing")
    assert {(item.outcome, item.set_name, item.previous_set) for item in again.values()} == {
        ("unchanged", "billing", "billing")
    }


def test_what_no_set_owns_is_adopted_also_unchanged(sets: Sets) -> None:
    sets.apply(*ALL)
    assert sets.owned() == {}
    adopted = sets.apply(AGENT, set_name="billing")["counter"]
    assert (adopted.outcome, adopted.set_name, adopted.version) == ("unchanged", "billing", 1)
    assert sets.owned() == {"billing": ["counter"]}
    assert sets.audit(adopted.id)[0] == (
        "agent.set_changed",
        {"name": "counter", "version": 1, "outcome": "unchanged", "set": "billing", "previous_set": None},
    )


@pytest.mark.parametrize("set_name", [None, "payroll"])
@pytest.mark.parametrize("text", [AGENT, CHANGED])
def test_what_another_set_owns_is_refused_with_its_name_and_owner(sets: Sets, set_name: str | None, text: str) -> None:
    sets.apply(*ALL, set_name="billing")
    refused = sets.refusal("\nkind: Environment\nname: other\n", text, set_name=set_name)
    message = "Agent 'counter' is owned by set billing: use --set billing or --take-over"
    assert refused.message == f"Nothing was applied. {message}."
    assert dict(refused.problems) == {"f.yaml:5: name": message}
    assert "other" not in sets.names()
    assert list(sets.owned()) == ["billing"]


def test_a_refusal_counts_all_that_other_sets_own(sets: Sets) -> None:
    sets.apply(*ALL, set_name="billing")
    refused = sets.refusal(*ALL, set_name="payroll")
    assert "So are 4 more." in refused.message
    assert len(refused.problems) == 5


def test_a_take_over_shows_the_difference_and_changes_the_owner(sets: Sets) -> None:
    sets.apply(*ALL, set_name="billing")
    planned = sets.apply(CHANGED, set_name="payroll", take_over=True, dry_run=True)
    assert sets.owned()["billing"] == ["Ready", "contracts", "counter", "inbox", "standard"]
    done = sets.apply(CHANGED, set_name="payroll", take_over=True)
    for items in (planned, done):
        item = items["counter"]
        assert (item.outcome, item.previous_set, item.set_name) == ("updated", "billing", "payroll")
        assert "-code: 'def run(context): return 1'" in item.difference
        assert (items["Ready"].set_name, items["Ready"].previous_set) == ("billing", "billing")
    assert not done["Ready"].difference
    assert sets.owned()["payroll"] == ["counter"]
    assert sets.audit(done["counter"].id)[0] == (
        "agent.applied",
        {"name": "counter", "version": 2, "outcome": "updated", "set": "payroll", "previous_set": "billing"},
    )


def test_a_take_over_without_a_set_leaves_it_to_no_set(sets: Sets) -> None:
    sets.apply(*ALL, set_name="billing")
    item = sets.apply(AGENT, take_over=True)["counter"]
    assert (item.outcome, item.previous_set, item.HasField("set_name")) == ("unchanged", "billing", False)
    assert "counter" not in sets.owned()["billing"]
    assert sets.audit(item.id)[0][1]["set"] is None
    sets.apply(CHANGED)


def test_a_change_of_an_agent_reaches_workflows_of_other_sets(sets: Sets) -> None:
    sets.apply(AGENT, set_name="agents")
    sets.apply(ENVIRONMENT, CONNECTOR, GRAPH, WORKFLOW, set_name="billing")
    changed = sets.apply(CHANGED, set_name="agents")["Ready"]
    assert (changed.version, changed.set_name, changed.previous_set) == (2, "billing", "billing")
    assert sets.audit(changed.id)[0][1]["set"] == "billing"


def test_a_prune_deletes_what_the_files_lack_in_any_order_of_use(sets: Sets) -> None:
    ids = {name: item.id for name, item in sets.apply(*ALL, PLAIN, PARENT, set_name="billing").items()}
    sets.apply("\nkind: Agent\nname: foreign\ntype: python\ncode: 'def run(context): return 1'\n", set_name="payroll")
    sets.apply("\nkind: Environment\nname: free\n")
    planned = sets.apply(ENVIRONMENT, set_name="billing", prune=True, dry_run=True)
    assert sets.names() >= ids.keys()
    pruned = sets.apply(ENVIRONMENT, set_name="billing", prune=True)
    for items in (planned, pruned):
        assert {name: item.outcome for name, item in items.items()} == dict.fromkeys(ids, "deleted") | {
            "standard": "unchanged"
        }
        assert {item.previous_set for item in items.values()} == {"billing"}
        assert not items["Ready"].HasField("set_name")
    assert sets.names() == {"standard", "foreign", "free"}
    assert sets.owned() == {"billing": ["standard"], "payroll": ["foreign"]}
    for name, noun in (("Ready", "workflow"), ("counter", "agent"), ("inbox", "connector")):
        assert sets.audit(ids[name])[0] == (f"{noun}.deleted", {"name": name, "version": 1, "set": "billing"})


def test_a_rename_with_prune_replaces_the_old_name_also_where_all_places_are_taken(sets: Sets) -> None:
    texts = [f"\nkind: Environment\nname: e{number}\n" for number in range(256)]
    sets.apply(*texts, set_name="billing")
    renamed = [*texts[1:], "\nkind: Environment\nname: other\n"]
    assert "more than 256" in str(sets.refusal(*renamed, set_name="billing").problems)
    applied = sets.apply(*renamed, set_name="billing", prune=True)
    assert (applied["other"].outcome, applied["e0"].outcome) == ("created", "deleted")


@pytest.mark.parametrize(
    ("kept", "name"), [(AGENT, "counter"), (ENVIRONMENT, "standard"), (CONNECTOR, "inbox"), (GRAPH, "contracts")]
)
def test_a_prune_of_what_is_in_use_is_refused_whole(sets: Sets, kept: str, name: str) -> None:
    sets.apply(*(text for text in ALL if text != WORKFLOW), PLAIN, set_name="billing")
    sets.apply(WORKFLOW)
    # Everything but what is kept here goes, though the one workflow, which no set owns, uses it.
    refused = sets.refusal(kept, "\nkind: Environment\nname: new\n", set_name="billing", prune=True)
    assert "set billing cannot be pruned" in refused.message
    assert f"{name!r} is used" not in refused.message
    for other in {"counter", "standard", "inbox", "contracts"} - {name}:
        assert f"{other!r} is used by workflow 'Ready'" in refused.message
    assert list(refused.problems) == ["prune"]
    assert sets.names() == {"counter", "standard", "inbox", "contracts", "Ready", "Plain"}


def test_a_document_that_still_names_what_is_pruned_keeps_it(sets: Sets) -> None:
    sets.apply(*ALL, PLAIN, PARENT, set_name="billing")
    for kept, used, user in (
        ((ENVIRONMENT, CONNECTOR, GRAPH, WORKFLOW, PLAIN, PARENT), "counter", "Ready"),
        ((ENVIRONMENT, AGENT, GRAPH, WORKFLOW, PLAIN, PARENT), "inbox", "Ready"),
        ((*ALL, PARENT), "Plain", "Parent"),
        # The new version shares the definition of the one before: only the agent has changed.
        ((ENVIRONMENT, CHANGED, CONNECTOR, WORKFLOW, PLAIN, PARENT), "contracts", "Ready"),
    ):
        refused = sets.refusal(*kept, set_name="billing", prune=True)
        assert f"{used!r} is used by workflow {user!r}" in refused.message


def test_a_new_workflow_and_one_that_changes_with_its_agent_keep_what_they_name(sets: Sets) -> None:
    sets.apply(AGENT, CONNECTOR, GRAPH, set_name="billing")
    sets.apply(ENVIRONMENT, WORKFLOW, set_name="other")
    refused = sets.refusal(CHANGED, set_name="billing", prune=True)
    assert "'inbox' is used by workflow 'Ready'" in refused.message
    new = WORKFLOW.replace("Ready", "New")
    refused = sets.refusal(CHANGED, new, set_name="billing", prune=True)
    assert "'inbox' is used by workflow 'New', workflow 'Ready'" in refused.message


def test_a_document_may_stop_to_use_what_is_pruned_with_it(sets: Sets) -> None:
    sets.apply(*ALL, set_name="billing")
    plain = PLAIN.replace("Plain", "Ready")
    applied = sets.apply(plain, set_name="billing", prune=True)
    assert {name: item.outcome for name, item in applied.items()} == {
        "Ready": "updated",
        **dict.fromkeys(("counter", "standard", "inbox", "contracts"), "deleted"),
    }


def test_a_run_that_has_not_ended_keeps_a_workflow_from_being_pruned(backend: TestBackend, sets: Sets) -> None:
    workflow_id = sets.apply(PLAIN, ENVIRONMENT, set_name="billing")["Plain"].id
    request = runs_pb2.StartRunRequest(workflow_id=workflow_id, idempotency_key="k")
    run_id = sets.call("StartRun", request).run.summary.run_id
    refused = sets.refusal(ENVIRONMENT, set_name="billing", prune=True)
    assert f"Workflow 'Plain' is used by run {run_id}" in refused.message
    sets.call("CancelRun", runs_pb2.CancelRunRequest(run_id=run_id))
    sets.apply(ENVIRONMENT, set_name="billing", prune=True)
    assert sets.names() == {"standard"}


def test_a_key_that_lists_a_workflow_keeps_it_from_being_pruned(backend: TestBackend, sets: Sets) -> None:
    workflow_id = sets.apply(PLAIN, ENVIRONMENT, set_name="billing")["Plain"].id
    key = backend.add_key(workflows=[workflow_id])
    assert key.key_id in sets.refusal(ENVIRONMENT, set_name="billing", prune=True).message


def test_what_was_taken_over_is_not_pruned(sets: Sets) -> None:
    sets.apply(AGENT, ENVIRONMENT, set_name="billing")
    sets.apply(AGENT, set_name="payroll", take_over=True)
    sets.apply(ENVIRONMENT, set_name="billing", prune=True)
    assert sets.names() == {"counter", "standard"}


def test_a_prune_needs_a_set_and_a_document(sets: Sets) -> None:
    sets.apply(AGENT, set_name="billing")
    assert list(sets.refusal(AGENT, prune=True).problems) == ["prune"]
    assert list(sets.refusal("# nothing\n", set_name="billing", prune=True).problems) == ["files"]
    assert sets.names() == {"counter"}


@pytest.mark.parametrize("name", ["", "Billing", "-a", "a-", "a b", "a" * 65, "<b>", "a\n"])
def test_a_name_of_a_set_is_lowercase_letters_digits_and_dashes(sets: Sets, name: str) -> None:
    assert list(sets.refusal(AGENT, set_name=name).problems) == ["set_name"]


def test_delete_works_as_before_and_frees_the_name_from_its_set(sets: Sets) -> None:
    ids = {name: item.id for name, item in sets.apply(AGENT, PLAIN, set_name="billing").items()}
    sets.delete("Agent", "counter")
    sets.delete("Workflow", "Plain")
    assert sets.owned() == {}
    assert sets.audit(ids["counter"])[0] == ("agent.deleted", {"name": "counter", "version": 1, "set": "billing"})
    assert sets.apply(AGENT, PLAIN, set_name="payroll")["Plain"].outcome == "created"
    assert sets.owned() == {"payroll": ["Plain", "counter"]}


def test_going_back_to_a_version_keeps_the_owner(sets: Sets) -> None:
    workflow_id = sets.apply(PLAIN, set_name="billing")["Plain"].id
    sets.apply(PLAIN.replace("Look}", "Look closely}"), set_name="billing")
    request = definitions_pb2.RestoreWorkflowVersionRequest(workflow="Plain", version=1)
    restored = sets.call("RestoreWorkflowVersion", request).workflow
    assert (restored.version, restored.set_name, restored.previous_set) == (3, "billing", "billing")
    assert sets.owned() == {"billing": ["Plain"]}
    assert sets.audit(workflow_id)[0][1]["set"] == "billing"


def test_the_owner_is_shown_with_a_definition(sets: Sets) -> None:
    sets.apply(*ALL, set_name="billing")
    sets.apply(PLAIN)
    agents = workflows_pb2.RESOURCE_KIND_AGENT
    shown = (
        sets.call("GetWorkflowDefinition", workflows_pb2.GetWorkflowDefinitionRequest(workflow="Ready")),
        sets.call("GetResource", workflows_pb2.GetResourceRequest(kind=agents, resource="counter")).resource,
        sets.call("ListResources", workflows_pb2.ListResourcesRequest(kind=agents)).items[0],
        sets.call("GetManifest", definitions_pb2.GetManifestRequest(kind="Environment", definition="standard")),
    )
    assert [each.set_name for each in shown] == ["billing"] * 4
    plain = sets.call("GetWorkflowDefinition", workflows_pb2.GetWorkflowDefinitionRequest(workflow="Plain"))
    assert not plain.HasField("set_name")


def at_once(*works: Callable[[], object]) -> list[str]:
    """Runs works at the same moment; returns the message of the refusal of each, "" without one."""
    barrier = threading.Barrier(len(works))
    messages = [""] * len(works)

    def attempt(number: int) -> None:
        barrier.wait()
        try:
            works[number]()
        except RefusedError as refused:
            messages[number] = refused.message

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return messages


def test_of_two_sets_that_adopt_at_once_one_is_refused(sets: Sets) -> None:
    for number in range(5):
        text = AGENT.replace("counter", f"c{number}")
        sets.apply(text)
        messages = at_once(*(partial(sets.apply, text, set_name=name) for name in ("billing", "payroll")))
        assert sorted(map(bool, messages)) == [False, True]
        owners = [name for name, members in sets.owned().items() if f"c{number}" in members]
        assert f"is owned by set {owners[0]}" in "".join(messages)
        assert len(owners) == 1


def test_two_prunes_at_once_leave_what_the_later_one_has(sets: Sets) -> None:
    for _ in range(5):
        sets.apply(AGENT, ENVIRONMENT, set_name="billing")
        messages = at_once(*(partial(sets.apply, text, set_name="billing", prune=True) for text in (CONNECTOR, GRAPH)))
        assert messages == ["", ""]
        assert sets.names() in ({"inbox"}, {"contracts"})
        assert sets.owned() == {"billing": list(sets.names())}


def test_a_prune_beside_an_apply_that_uses_it_leaves_no_workflow_without_its_resources(sets: Sets) -> None:
    for number in range(5):
        sets.apply(ENVIRONMENT, AGENT, CONNECTOR, GRAPH, set_name="billing", take_over=True)
        using = WORKFLOW.replace("Ready", f"W{number}")
        pruned, _ = at_once(
            partial(sets.apply, ENVIRONMENT, set_name="billing", prune=True),
            partial(sets.apply, using),
        )
        if pruned:
            assert f"is used by workflow 'W{number}'" in pruned
            assert {"counter", "inbox", "contracts"} <= sets.names()
        else:
            ready = sets.call(
                "GetWorkflowDefinition", workflows_pb2.GetWorkflowDefinitionRequest(workflow=f"W{number}")
            )
            assert not ready.workflow.readiness.ready
        sets.delete("Workflow", f"W{number}")

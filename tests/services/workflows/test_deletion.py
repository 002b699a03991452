"""DeleteDefinition: the name and the place are free, and versions that runs name stay readable."""

import itertools
import json
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest
from google.protobuf.message import Message

from backend.common.errors import ApiError
from backend.services.workflows import resources_sql
from backend.services.workflows.deletion import DeletedDefinitionRetention, delete_definition
from backend.storage.database import Database, Tx
from tests.services.calls import Caller, RefusedError
from workflow_api.v1 import audit_pb2, definitions_pb2, keys_pb2, options_pb2, runs_pb2, users_pb2, workflows_pb2
from workflow_api_testing import TestBackend

RESOURCES = """
kind: Environment
name: standard
---
kind: Agent
name: counter
type: python
code: "def run(context): return 1"
---
kind: Connector
name: inbox
type: s3
bucket: docs
---
kind: KnowledgeGraph
name: contracts
"""
USING = """
kind: Workflow
name: Ready
status: active
steps: [{step: count, agent: counter, environment: standard, connectors: [inbox]}]
publish: [{knowledge_graph: contracts}]
"""
USING_NOTHING = USING.replace("agent: counter, environment: standard, connectors: [inbox]", "approval: {title: Look}")
USING_NOTHING = USING_NOTHING.replace("publish: [{knowledge_graph: contracts}]", "")
KINDS = {"Agent": "counter", "Environment": "standard", "Connector": "inbox", "KnowledgeGraph": "contracts"}

T = TypeVar("T")

_NUMBERS = itertools.count()


@pytest.fixture
def call(backend: TestBackend) -> Caller:
    return Caller.of_backend(backend)


def delete(call: Caller, kind: str, name: str) -> definitions_pb2.DeleteDefinitionResponse:
    answer: definitions_pb2.DeleteDefinitionResponse = call(
        "DeleteDefinition", definitions_pb2.DeleteDefinitionRequest(kind=kind, definition=name)
    )
    return answer


def start(call: Caller, workflow_id: str, **fields: Any) -> str:
    request = runs_pb2.StartRunRequest(workflow_id=workflow_id, idempotency_key=f"k{next(_NUMBERS)}", **fields)
    return str(call("StartRun", request).run.summary.run_id)


def workflow_names(call: Caller) -> list[str]:
    request = workflows_pb2.ListWorkflowsRequest(include_inactive=True)
    return [item.name for item in call("ListWorkflows", request).items]


def definition(call: Caller, workflow: str, **fields: Any) -> workflows_pb2.WorkflowDefinition:
    request = workflows_pb2.GetWorkflowDefinitionRequest(workflow=workflow, **fields)
    answer: workflows_pb2.WorkflowDefinition = call("GetWorkflowDefinition", request)
    return answer


def refusal(call: Caller, kind: str, name: str) -> str:
    """Returns why a deletion is refused."""
    with pytest.raises(RefusedError) as refused:
        delete(call, kind, name)
    return refused.value.message


def upkeep(backend: TestBackend) -> int:
    backend.clock.advance(days=2)
    rule = DeletedDefinitionRetention()
    return backend.composition.services.database.write(lambda tx: rule.delete_batch(tx, backend.clock()))


def test_a_deleted_workflow_is_in_no_list_and_not_found(backend: TestBackend, call: Caller) -> None:
    workflow_id = backend.apply(RESOURCES + "---" + USING)["Ready"]
    key = backend.add_key()
    deleted = delete(call, "Workflow", "Ready")
    assert (deleted.kind, deleted.id, deleted.name) == ("Workflow", workflow_id, "Ready")
    assert workflow_names(call) == []
    assert not call("FindWorkflows", definitions_pb2.FindWorkflowsRequest(text="")).items
    for key_id in (None, key.key_id):
        with pytest.raises(RefusedError) as refused:
            call("GetWorkflow", workflows_pb2.GetWorkflowRequest(workflow_id=workflow_id), key_id)
        assert refused.value.reason == "workflow_not_found"
        with pytest.raises(RefusedError) as refused:
            call("StartRun", runs_pb2.StartRunRequest(workflow_id=workflow_id, idempotency_key="k"), key_id)
        assert refused.value.reason == "workflow_not_found"
    active = workflows_pb2.WORKFLOW_STATUS_ACTIVE
    changes: tuple[tuple[str, Message], ...] = (
        ("UpdateWorkflowStatus", workflows_pb2.UpdateWorkflowStatusRequest(workflow=workflow_id, status=active)),
        ("RestoreWorkflowVersion", definitions_pb2.RestoreWorkflowVersionRequest(workflow=workflow_id, version=1)),
        ("DeleteDefinition", definitions_pb2.DeleteDefinitionRequest(kind="Workflow", definition=workflow_id)),
    )
    for method, request in changes:
        with pytest.raises(RefusedError):
            call(method, request)


def test_a_deleted_name_begins_anew_with_another_id_and_version_1(backend: TestBackend, call: Caller) -> None:
    backend.apply(RESOURCES + "---" + USING)
    before = definition(call, "Ready").workflow.workflow_id
    for _ in range(2):
        delete(call, "Workflow", "Ready")
        again = backend.apply(USING)["Ready"]
        assert again != before
        assert definition(call, "Ready").version == 1
    delete(call, "Workflow", "Ready")
    for kind, name in KINDS.items():
        for _ in range(2):
            old = delete(call, kind, name).id
            backend.apply(RESOURCES)
            assert delete(call, kind, name).id != old
            backend.apply(RESOURCES)


@pytest.mark.parametrize(("kind", "name"), KINDS.items())
def test_what_a_workflow_uses_is_kept_and_who_uses_it_is_named(
    backend: TestBackend, call: Caller, kind: str, name: str
) -> None:
    backend.apply(RESOURCES + "---" + USING)
    with pytest.raises(RefusedError) as refused:
        delete(call, kind, name)
    assert refused.value.message.endswith(f"{name} cannot be deleted, because it is used by workflow 'Ready'.")
    assert refused.value.reason == "invalid_request"
    assert "Ready" in refused.value.problems["definition"]
    backend.apply(USING_NOTHING)
    delete(call, kind, name)
    assert f"named {name}" in refusal(call, kind, name)


def test_a_run_that_has_not_ended_keeps_what_its_version_uses(backend: TestBackend, call: Caller) -> None:
    gated = USING.replace("steps: [", "steps: [{step: look, approval: {title: Look}}, ").replace(
        "agent: counter", "needs: [look], agent: counter"
    )
    gated = gated.replace(", connectors: [inbox]", "").replace("Ready", "Gated")
    gated += "parameters: [{name: files, type: s3_prefix, connector: inbox, required: false}]\n"
    backend.apply(RESOURCES + "---" + gated)
    connector = workflows_pb2.GetResourceRequest(kind=workflows_pb2.RESOURCE_KIND_CONNECTOR, resource="inbox")
    assert call("GetResource", connector).used_by == ["Gated"]

    def passed(tx: Any) -> None:
        row = resources_sql.resource(tx, "connector", "inbox")
        assert row is not None
        resources_sql.record_test(tx, connector_id=row.resource_id, version=1, passed=True, message="", now=1)

    backend.composition.services.database.write(passed)
    workflow_id = definition(call, "Gated").workflow.workflow_id
    run_id = start(call, workflow_id)
    # The newest version uses none of them any more.
    backend.apply(USING_NOTHING.replace("Ready", "Gated"))
    for kind, name in (("Workflow", "Gated"), *KINDS.items()):
        assert f"run {run_id}" in refusal(call, kind, name)
    call("CancelRun", runs_pb2.CancelRunRequest(run_id=run_id))
    for kind, name in (*KINDS.items(), ("Workflow", "Gated")):
        delete(call, kind, name)


def gated(backend: TestBackend, name: str) -> str:
    """Applies a workflow that uses `inbox` and waits for an approval; returns its id."""
    steps = "steps: [{step: look, approval: {title: Look}}]"
    parameters = "parameters: [{name: files, type: s3_prefix, connector: inbox, required: false}]"
    publish = "publish: [{knowledge_graph: contracts}]"
    text = f"kind: Workflow\nname: {name}\nstatus: active\n{steps}\n{parameters}\n{publish}\n"
    return backend.apply(text)[name]


def test_the_first_runs_that_use_a_resource_are_named_and_the_others_counted(
    backend: TestBackend, call: Caller
) -> None:
    backend.apply(RESOURCES)
    workflow_ids = [gated(backend, name) for name in ("One", "Two")]

    def passed(tx: Any) -> None:
        row = resources_sql.resource(tx, "connector", "inbox")
        assert row is not None
        resources_sql.record_test(tx, connector_id=row.resource_id, version=1, passed=True, message="", now=1)

    backend.composition.services.database.write(passed)
    run_ids = {start(call, workflow_id) for workflow_id in workflow_ids for _ in range(13)}
    backend.apply(USING_NOTHING.replace("Ready", "One"))
    for kind, name in (("Connector", "inbox"), ("KnowledgeGraph", "contracts")):
        told = refusal(call, kind, name)
        assert sum(f"run {run_id}" in told for run_id in run_ids) == 20
        assert told.endswith("6 more of kind run.")
        assert "workflow 'Two'" in told
        assert "workflow 'One'" not in told


class SeenTransactions:
    """A database with the rows that the work of writes reads; what is `between` is done before the next read."""

    def __init__(self, database: Database) -> None:
        self.rows: list[str] = []
        self.between: list[Callable[[], object]] = []
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def read(self, work: Callable[[Tx], T]) -> T:
        while self.between:
            self.between.pop()()
        return self._database.read(work)

    def write(self, work: Callable[[Any], T]) -> T:
        return self._database.write(lambda tx: work(SeenTx(tx, self.rows)))


class SeenTx:
    def __init__(self, tx: Tx, rows: list[str]) -> None:
        self._tx = tx
        self._rows = rows

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tx, name)

        def seen(*given: Any, **named: Any) -> Any:
            answer = found(*given, **named)
            self._rows.append(repr(answer))
            return answer

        return seen if callable(found) else found


@pytest.mark.parametrize(("kind", "name"), [("Connector", "inbox"), ("KnowledgeGraph", "contracts")])
def test_no_definition_is_read_in_the_transaction_of_a_deletion_that_holds_up_others(
    backend: TestBackend, call: Caller, kind: str, name: str
) -> None:
    backend.apply(RESOURCES)
    backend.apply(USING_NOTHING.replace("Look", "Look at words of one definition with inbox and contracts"))
    start(call, definition(call, "Ready").workflow.workflow_id)
    database = SeenTransactions(backend.composition.services.database)
    deleted = delete_definition(cast("Database", database), kind, name, now=backend.clock(), actor="tester")
    assert deleted.name == name
    assert database.rows
    assert "words of one definition" not in "".join(database.rows)


def test_a_workflow_applied_while_a_deletion_reads_definitions_counts(backend: TestBackend, call: Caller) -> None:
    backend.apply(RESOURCES)
    backend.apply(USING_NOTHING)
    database = SeenTransactions(backend.composition.services.database)
    database.between.append(lambda: gated(backend, "Late"))
    with pytest.raises(ApiError, match="used by workflow 'Late'"):
        delete_definition(cast("Database", database), "Connector", "inbox", now=backend.clock(), actor="tester")
    assert not database.between


def test_keys_and_people_whose_list_names_a_workflow_keep_it(backend: TestBackend, call: Caller) -> None:
    workflow_id = backend.add_workflow("Ready")
    key = backend.add_key("ci", workflows=[workflow_id])
    call(
        "CreateUser",
        users_pb2.CreateUserRequest(
            name="kim",
            role=users_pb2.ROLE_APPROVER,
            decides_for=users_pb2.ChosenWorkflows(workflow_ids=[workflow_id]),
        ),
    )
    backend.add_key("all")
    assert refusal(call, "Workflow", "Ready").endswith(f"used by key 'ci' ({key.key_id}), person 'kim'.")
    call("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=key.key_id))
    call("SetUserRole", users_pb2.SetUserRoleRequest(name="kim", role=users_pb2.ROLE_VIEWER))
    delete(call, "Workflow", "Ready")
    with pytest.raises(RefusedError):
        call(
            "CreateKey",
            keys_pb2.CreateKeyRequest(
                name="late",
                scopes=[options_pb2.SCOPE_RUNS_READ],
                workflow_access=keys_pb2.WorkflowAccess(
                    mode=keys_pb2.WorkflowAccess.MODE_EXPLICIT, workflow_ids=[workflow_id]
                ),
            ),
        )


def test_versions_that_ended_runs_name_stay_readable_by_their_id(backend: TestBackend, call: Caller) -> None:
    workflow_id = backend.add_workflow("Ready", description="Before.")
    run_id = start(call, workflow_id)
    backend.finish_run(run_id)
    uses = {each.kind: each for each in definition(call, workflow_id).resources}
    delete(call, "Workflow", "Ready")
    agent_id = delete(call, "Agent", uses["Agent"].name).id
    assert upkeep(backend) == 0
    run = call("GetRun", runs_pb2.GetRunRequest(run_id=run_id)).summary
    assert (run.workflow_id, run.workflow_name, run.version) == (workflow_id, "Ready", 1)
    read = definition(call, workflow_id, version=1)
    assert read.HasField("deleted_at")
    assert (read.workflow.name, json.loads(read.definition)["description"]) == ("Ready", "Before.")
    assert read.workflow.readiness.reasons[0] == "The workflow was deleted."
    for kind, gone in (("Workflow", workflow_id), ("Agent", agent_id)):
        manifest = call("GetManifest", definitions_pb2.GetManifestRequest(kind=kind, definition=gone, version=1))
        assert manifest.text.startswith(f"kind: {kind}\n")
        listed = definitions_pb2.ListDefinitionVersionsRequest(kind=kind, definition=gone)
        assert [each.version for each in call("ListDefinitionVersions", listed).items] == [1]
    request = workflows_pb2.GetResourceRequest(kind=workflows_pb2.RESOURCE_KIND_AGENT, resource=agent_id)
    shown = call("GetResource", request)
    assert shown.HasField("deleted_at")
    assert shown.resource.name == uses["Agent"].name
    with pytest.raises(RefusedError):
        definition(call, "Ready")


def test_what_nothing_names_any_more_is_removed_by_the_upkeep(backend: TestBackend, call: Caller) -> None:
    workflow_id = backend.apply(RESOURCES + "---" + USING)["Ready"]
    delete(call, "Workflow", "Ready")
    for kind, name in KINDS.items():
        delete(call, kind, name)
    assert upkeep(backend) == 5
    assert upkeep(backend) == 0
    with pytest.raises(RefusedError):
        definition(call, workflow_id)


def test_a_deleted_agent_stays_in_older_versions_and_a_deleted_environment_keeps_them_from_starting(
    backend: TestBackend, call: Caller
) -> None:
    workflow_id = backend.apply(RESOURCES + "---" + USING.replace(", connectors: [inbox]", ""))["Ready"]
    backend.apply(USING_NOTHING)
    delete(call, "Agent", "counter")
    assert upkeep(backend) == 0
    start(call, workflow_id, version=1)
    for run in call("ListRuns", runs_pb2.ListRunsRequest()).items:
        call("CancelRun", runs_pb2.CancelRunRequest(run_id=run.run_id))
    delete(call, "Environment", "standard")
    with pytest.raises(RefusedError) as refused:
        start(call, workflow_id, version=1)
    assert refused.value.reasons == ("Environment 'standard' is not active: it was deleted.",)


def test_a_place_among_256_is_free_again(backend: TestBackend, call: Caller) -> None:
    for kind, fields in (("Workflow", ""), ("Agent", "type: python\ncode: 'def run(context): return 1'\n")):
        backend.apply("---\n".join(f"kind: {kind}\nname: n{number}\n{fields}" for number in range(256)))
        delete(call, kind, "n7")
        backend.apply(f"kind: {kind}\nname: one-more\n{fields}")


def test_a_close_name_is_suggested_and_an_unknown_kind_refused(backend: TestBackend, call: Caller) -> None:
    backend.apply(RESOURCES)
    with pytest.raises(RefusedError) as refused:
        delete(call, "Agent", "count")
    assert refused.value.reason == "not_found"
    assert refused.value.message == "There is no agent named count. Did you mean counter?"
    with pytest.raises(RefusedError) as refused:
        delete(call, "agent", "counter")
    assert "kind" in refused.value.problems


def test_a_deletion_is_audited(backend: TestBackend, call: Caller) -> None:
    backend.apply(RESOURCES)
    agent_id = delete(call, "Agent", "counter").id
    newest = call("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(target=agent_id)).items[0]
    assert (newest.action, newest.actor) == ("agent.deleted", "tester")


def test_a_start_and_a_deletion_at_the_same_time_leave_no_run_of_a_deleted_workflow(
    backend: TestBackend, call: Caller
) -> None:
    for number in range(8):
        workflow_id = backend.apply(USING_NOTHING.replace("Ready", f"W{number}"))[f"W{number}"]
        barrier = threading.Barrier(2)
        done: dict[str, bool] = {}

        def attempt(name: str, work: Any, barrier: threading.Barrier = barrier, done: dict[str, bool] = done) -> None:
            barrier.wait()
            try:
                work()
                done[name] = True
            except RefusedError:
                done[name] = False

        threads = [
            threading.Thread(target=attempt, args=("started", lambda of=workflow_id: start(call, of))),
            threading.Thread(target=attempt, args=("deleted", lambda n=number: delete(call, "Workflow", f"W{n}"))),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert done["started"] != done["deleted"]

"""A deployment with workflows and keys, whose runs a test moves by hand in place of a runtime."""

import itertools
import json
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, func, select, text

from backend.common.ids import new_id
from backend.common.secrets import Secrets
from backend.common.waits import KeyChanges
from backend.resources.graphs.graphs import Graphs
from backend.services.audit.servicer import AuditServicer
from backend.services.dependencies import Services
from backend.services.deployment.servicer import DeploymentServicer
from backend.services.keys.servicer import KeysServicer
from backend.services.outputs.servicer import OutputsServicer
from backend.services.outputs.sql import NewOutput, add_outputs
from backend.services.run_changes import RunChanges
from backend.services.runs import lifecycle
from backend.services.runs.erasure import Removals
from backend.services.runs.servicer import RunsServicer
from backend.services.uploads.staging import Uploads
from backend.services.workflows.servicer import WorkflowsServicer
from backend.storage.database import Tx
from backend.storage.object_keys import object_key
from backend.storage.objects import FolderObjects, ObjectStore
from backend.storage.objects.in_rows import ObjectsWithRows
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.metadata import METADATA
from backend.storage.tables.runs import RunRow, runs
from backend.storage.tables.segments import segments
from tests.services.calls import Caller
from tests.services.conftest import TestClock
from tests.support.wheels import package_store
from workflow_api.v1 import audit_pb2, deployment_pb2, keys_pb2, options_pb2, outputs_pb2, runs_pb2, workflows_pb2

MANIFESTS = """
kind: Environment
name: standard
---
kind: Environment
name: off
status: inactive
---
kind: Agent
name: worker
type: python
code: |
  def run(context):
      return {}
---
kind: Workflow
name: Plain
status: active
parameters:
  - {name: language, type: string, enum: [en, fr], default: en}
  - {name: count, type: integer, minimum: 1}
settings: {max_run_hours: 2.5}
steps:
  - {step: first, agent: worker, environment: standard}
  - {step: second, agent: worker, environment: standard, needs: [first], optional: true}
result: {step: first, schema_version: "3"}
---
kind: Workflow
name: Gated
status: active
steps:
  - {step: review, approval: {title: Look, instructions: Is it right?}}
  - {step: other, approval: {title: Look again}}
  - {step: after, agent: worker, environment: standard, needs: [review, other]}
---
kind: Workflow
name: Swept
status: active
steps:
  - {step: first, agent: worker, environment: standard}
pii_policy: {mode: detect, stages: [outputs, steps]}
---
kind: Workflow
name: Draft
steps:
  - {step: first, agent: worker, environment: standard}
---
kind: Workflow
name: Unready
status: active
steps:
  - {step: first, agent: worker, environment: off}
  - {step: second, environment: standard}
"""

_SCOPES = (
    options_pb2.SCOPE_WORKFLOWS_READ,
    options_pb2.SCOPE_RUNS_CREATE,
    options_pb2.SCOPE_RUNS_READ,
    options_pb2.SCOPE_OUTPUTS_READ,
    options_pb2.SCOPE_RUNS_DELETE,
)
_numbers = itertools.count()


@dataclass
class IdleRuntime:
    """A runtime that executes nothing and records the calls to it."""

    woken: int = 0
    cancelled: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def begin_run(self, *_: object) -> None:
        """Begins no run."""

    def wake(self) -> None:
        self.woken += 1

    def cancel(self, run_id: str) -> None:
        self.cancelled.append(run_id)

    def upkeep(self) -> dict[str, int]:
        return {"runs_erased": 0, "more": 0}

    def forget(self, run_id: str) -> None:
        self.forgotten.append(run_id)

    def remove_left(self, run_id: str) -> None:
        self.removed.append(run_id)


class World:
    """Services over gRPC, named by what they serve; `workflows` maps names to ids."""

    def __init__(self, services: Services, clock: TestClock, folder: Path) -> None:
        self.services = services
        self.clock = clock
        self.runtime = IdleRuntime()
        self.changes = RunChanges(services.database)
        self.folder = folder
        self.objects: ObjectStore = ObjectsWithRows(FolderObjects(folder / "objects"), services.database)
        self.graphs = Graphs(folder / "graphs", Secrets())
        changes = KeyChanges()
        # Carried out by hand.
        self.removals = Removals(services.database, self.objects, self.runtime.remove_left, services.clock)
        uploads = Uploads(services, self.objects, folder / "uploads")
        self.servicer = RunsServicer(services, self.runtime, self.changes, uploads)
        self.runs = Caller(self.servicer, runs_pb2.DESCRIPTOR.services_by_name["RunsService"])
        self.outputs = Caller(
            OutputsServicer(services, self.objects), outputs_pb2.DESCRIPTOR.services_by_name["OutputsService"]
        )
        self.keys = Caller(KeysServicer(services, changes), keys_pb2.DESCRIPTOR.services_by_name["KeysService"])
        self.deployment = Caller(
            DeploymentServicer(services, changes),
            deployment_pb2.DESCRIPTOR.services_by_name["DeploymentService"],
            (AuditServicer(services), audit_pb2.DESCRIPTOR.services_by_name["AuditService"]),
        )
        self.workflow_calls = Caller(
            WorkflowsServicer(services, self.graphs, package_store(folder / "data")),
            workflows_pb2.DESCRIPTOR.services_by_name["WorkflowsService"],
        )
        self.workflows = self.apply(MANIFESTS)
        self.key = self.new_key()

    def apply(self, manifests: str, attached: Mapping[str, bytes] | None = None, **options: Any) -> dict[str, str]:
        given = [workflows_pb2.AttachedFile(path=path, content=content) for path, content in (attached or {}).items()]
        file = workflows_pb2.ManifestFile(name="test.yaml", content=manifests, attached_files=given)
        applied = self.workflow_calls("ApplyManifests", workflows_pb2.ApplyManifestsRequest(files=[file], **options))
        return {item.name: item.id for item in applied.items if item.kind == "Workflow"}

    def switch(self, workflow: str, *, active: bool) -> None:
        status = workflows_pb2.WORKFLOW_STATUS_ACTIVE if active else workflows_pb2.WORKFLOW_STATUS_INACTIVE
        self.workflow_calls(
            "UpdateWorkflowStatus", workflows_pb2.UpdateWorkflowStatusRequest(workflow=workflow, status=status)
        )

    def new_key(self, **fields: Any) -> str:
        request = keys_pb2.CreateKeyRequest(**({"name": "caller", "scopes": _SCOPES} | fields))
        key_id: str = self.keys("CreateKey", request).record.key.key_id
        return key_id

    def start(
        self,
        workflow: str = "Plain",
        idempotency_key: str | None = None,
        *,
        key: str | None = "",
        **fields: Any,
    ) -> runs_pb2.StartRunResponse:
        """Starts a run with the world's key, or with `key`; None is an internal caller."""
        for name in ("parameters", "pii_policy_override"):
            if name in fields and not isinstance(fields[name], str):
                fields[name] = json.dumps(fields[name])
        request = runs_pb2.StartRunRequest(
            workflow_id=self.workflows.get(workflow, workflow),
            idempotency_key=idempotency_key or f"start-{next(_numbers)}",
            **fields,
        )
        answer: runs_pb2.StartRunResponse = self.runs("StartRun", request, self.key if key == "" else key)
        return answer

    def started(self, workflow: str = "Plain", **fields: Any) -> str:
        run_id: str = self.start(workflow, **fields).run.summary.run_id
        return run_id

    def get(self, run_id: str, key: str | None = "") -> runs_pb2.Run:
        answer: runs_pb2.Run = self.runs(
            "GetRun", runs_pb2.GetRunRequest(run_id=run_id), self.key if key == "" else key
        )
        return answer

    def events(self, run_id: str, **fields: Any) -> runs_pb2.ListRunEventsResponse:
        request = runs_pb2.ListRunEventsRequest(run_id=run_id, **fields)
        answer: runs_pb2.ListRunEventsResponse = self.runs("ListRunEvents", request, self.key)
        return answer

    def event_types(self, run_id: str, **fields: Any) -> list[str]:
        return [event.type for event in self.events(run_id, **fields).events]

    def steps(self, run_id: str) -> dict[str, runs_pb2.Step]:
        answer = self.runs("ListRunSteps", runs_pb2.ListRunStepsRequest(run_id=run_id), self.key)
        return {step.step: step for step in answer.items}

    def cancel(self, run_id: str, **fields: Any) -> runs_pb2.CancelRunResponse:
        request = runs_pb2.CancelRunRequest(run_id=run_id, **fields)
        answer: runs_pb2.CancelRunResponse = self.runs("CancelRun", request, self.key)
        return answer

    def erase(self, run_id: str, **fields: Any) -> runs_pb2.EraseRunDataResponse:
        request = runs_pb2.EraseRunDataRequest(run_id=run_id, **fields)
        answer: runs_pb2.EraseRunDataResponse = self.runs("EraseRunData", request, self.key)
        return answer

    def begin(self, run_id: str, owner: str = "worker") -> str:
        """Lets the runtime take the run's queued segment."""

        def work(tx: Tx) -> str:
            segment_id = tx.scalar_one(_QUEUED, run_id=run_id)
            assert lifecycle.begin_segment(tx, segment_id, owner, self.clock())
            return segment_id

        return self.services.database.write(work)

    def write(self, segment_id: str, event_type: str, **fields: Any) -> int:
        return self.services.database.write(
            lambda tx: lifecycle.append_event(tx, segment_id, event_type, self.clock(), **fields)
        )

    def park(self, run_id: str, segment_id: str, *steps: str) -> list[str]:
        """Parks a run on the approval steps named and returns the approvals' ids."""

        def work(tx: Tx) -> list[str]:
            ids = [self._ask(tx, run_id, segment_id, step) for step in steps]
            lifecycle.park_run(tx, segment_id, self.clock())
            return ids

        return self.services.database.write(work)

    def ask(self, run_id: str, segment_id: str, step: str) -> str:
        """Asks for an approval while the segment goes on."""
        return self.services.database.write(lambda tx: self._ask(tx, run_id, segment_id, step))

    def _ask(self, tx: Tx, run_id: str, segment_id: str, step: str) -> str:
        approval_id = new_id("apr")
        tx.run(
            _ASK,
            approval_id=approval_id,
            run_id=run_id,
            segment_id=segment_id,
            step=step,
            title="Look",
            requested_at=self.clock(),
        )
        tx.run(_PARK_STEP, run_id=run_id, step=step, segment_id=segment_id, at=self.clock())
        tx.run(_COUNT_APPROVAL, run_id=run_id)
        lifecycle.append_event(tx, segment_id, "approval.requested", self.clock(), step=step)
        return approval_id

    def decide(self, approval_id: str, approve: bool, **fields: Any) -> runs_pb2.DecideApprovalResponse:
        request = runs_pb2.DecideApprovalRequest(approval_id=approval_id, approve=approve, **fields)
        answer: runs_pb2.DecideApprovalResponse = self.runs("DecideApproval", request)
        return answer

    def output(self, run_id: str, path: str, data: bytes, step: str | None = "first") -> str:
        """Stores an output as a completed step leaves it."""
        output_id = new_id("out")
        key = object_key(run_id, output_id)
        size, sha256, crc32 = self.objects.put_bytes(key, data)
        new = NewOutput(output_id, run_id, path, step, "text/plain", size, sha256, key, crc32)
        self.services.database.write(lambda tx: add_outputs(tx, [new], self.clock()))
        return output_id

    def stored_below(self, prefix: str) -> Path:
        """The folder of the objects below a prefix."""
        return self.folder / "objects" / prefix

    def close(self, run_id: str, status: str = "completed", **fields: Any) -> bool:
        return self.services.database.write(lambda tx: lifecycle.close_run(tx, run_id, status, self.clock(), **fields))

    def complete(self, segment_id: str) -> None:
        result = lifecycle.RunResult(value="7")
        self.services.database.write(lambda tx: lifecycle.complete_run(tx, segment_id, self.clock(), result, ["late"]))

    def finished(self, workflow: str = "Plain", **fields: Any) -> str:
        """A run that began and completed without a trace of steps."""
        run_id = self.started(workflow, **fields)
        self.begin(run_id)
        self.clock.advance(seconds=1)
        assert self.close(run_id)
        return run_id

    def row(self, run_id: str) -> RunRow:
        return self.services.database.read(lambda tx: tx.one(_ROW, run_id=run_id))

    def dump(self, table: str) -> list[Any]:
        name, _, condition = table.partition(" WHERE ")
        make_class: Any = namedtuple  # noqa: PYI024 - of any table
        found = METADATA.tables[name]
        query: Query[Any] = Query(
            make_class("Row", found.columns.keys()), select(found).where(text(condition or "1 = 1"))
        )
        return self.services.database.read(lambda tx: tx.all(query))

    def count(self, table: str, where: str = "1 = 1") -> int:
        query = ScalarQuery[int](select(func.count()).select_from(text(table)).where(text(where)))
        return self.services.database.read(lambda tx: tx.scalar_one(query))


_QUEUED = ScalarQuery[str](
    select(segments.c.segment_id).where(segments.c.run_id == bindparam("run_id"), segments.c.state == "queued")
)
_ASK = Command(
    text(
        "INSERT INTO approvals (approval_id, run_id, segment_id, step, title, state, requested_at)"
        " VALUES (:approval_id, :run_id, :segment_id, :step, :title, 'pending', :requested_at)"
    )
)
_PARK_STEP = Command(
    text(
        "UPDATE steps SET status = 'waiting_for_approval', segment_id = :segment_id, started_at = :at"
        " WHERE run_id = :run_id AND step = :step"
    )
)
_COUNT_APPROVAL = Command(text("UPDATE runs SET approvals_pending = approvals_pending + 1 WHERE run_id = :run_id"))
_ROW = Query(RunRow, select_row(RunRow, runs).where(runs.c.run_id == bindparam("run_id")))

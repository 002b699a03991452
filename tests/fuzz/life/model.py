"""Model of keys and runs by the contract, as plain values: no call is made here.

A `ContractRefusal` is an answer that a caller must get, by the order of checks. (contract 5.1, 12.6)
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Secret = Literal["current", "previous", "dead"]
SCOPES = ("workflows:read", "runs:create", "runs:read", "outputs:read", "runs:delete")
ACTIVE = ("queued", "running", "waiting_for_approval")


class ContractRefusal(Exception):  # noqa: N818 - an answer of the contract
    """A refusal with its status and code; `details` where the contract gives them."""

    def __init__(self, status: int, code: str, details: object = None) -> None:
        super().__init__(status, code, details)
        self.status = status
        self.code = code
        self.details = details


@dataclass(frozen=True)
class Workflow:
    """One of the test workflows: how far a run of it goes by itself, and what it leaves."""

    name: str
    status: str = "active"
    ready: bool = True
    reaches: str = "completed"
    approvals: int = 0
    outputs: tuple[str, ...] = ()
    has_result: bool = False


WORKFLOWS = (
    Workflow("Silence"),
    Workflow("Echo", outputs=("echo/echo.txt", "result.json"), has_result=True),
    Workflow("Failure", reaches="failed", outputs=("first/echo.txt",)),
    Workflow("Park", reaches="waiting_for_approval", approvals=1),
    Workflow("Two gates", reaches="waiting_for_approval", approvals=2),
    Workflow("Sleep", reaches="running", outputs=("doze/echo.txt",)),
    Workflow("Drafted", status="draft"),
    Workflow("Withdrawn", status="inactive", ready=False),
    Workflow("Unstaffed", ready=False),
)


@dataclass
class Run:
    """One run as a reader must see it once it stands still."""

    run_id: str
    workflow: Workflow
    body: dict[str, Any]
    status: str
    approvals_left: int
    error: str | None = None
    segments: int = 1
    erased_at: str | None = None
    events: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    @property
    def outputs(self) -> tuple[str, ...]:
        return () if self.erased_at else self.workflow.outputs

    def decide(self, *, approve: bool) -> None:
        """A person's decision, which is carried out in a new segment; a rejection ends the run there."""
        self.segments += 1
        if approve:
            self.approvals_left -= 1
            self.status = "waiting_for_approval" if self.approvals_left else "completed"
        else:
            self.status, self.error = "failed", "invariant_blocked"

    def cancel(self) -> None:
        """The end; of a parked run, whose last segment has ended, in a segment of its own."""
        self.segments += self.status == "waiting_for_approval"
        self.status, self.approvals_left = "cancelled", 0


@dataclass
class Key:
    """One key as its administrator made it, and what was done with it."""

    key_id: str
    secrets: dict[Secret, str]
    external_id: str
    scopes: tuple[str, ...]
    workflows: tuple[str, ...] | None
    source: Literal["anywhere", "here", "elsewhere"]
    in_hours: bool | None
    quota: int
    bound: int
    old_external_id: str | None = None
    state: Literal["active", "revoked", "deleted"] = "active"
    started: int = 0
    runs: list[Run] = field(default_factory=list)
    bindings: dict[str, tuple[str, Run | None]] = field(default_factory=dict)

    @property
    def active_runs(self) -> int:
        return sum(run.active for run in self.runs)

    def admit(self, scope: str | None, secret: Secret = "current", *, old_external_id: bool = False) -> None:
        """Orders 2 to 5; no test reaches the rate limit.

        Raises:
            ContractRefusal: the call does not get as far as its route.
        """
        if self.state != "active" or secret == "dead" or old_external_id:
            raise ContractRefusal(401, "unauthorized")
        if self.source == "elsewhere":
            raise ContractRefusal(403, "forbidden")
        if self.in_hours is False:
            raise ContractRefusal(403, "outside_time_window", ...)
        if scope is not None and scope not in self.scopes:
            raise ContractRefusal(403, "forbidden")

    def rotate(self, secret: str) -> None:
        """The present secret goes into its overlap, and ends an older one."""
        if "previous" in self.secrets:
            self.secrets["dead"] = self.secrets["previous"]
        self.secrets |= {"previous": self.secrets["current"], "current": secret}

    def find(self, run: Run) -> Run:
        """Raises ContractRefusal for a run of another key."""
        if run not in self.runs:
            raise ContractRefusal(404, "run_not_found")
        return run

    def reads(self, workflow: Workflow) -> None:
        """GET of one workflow: out of reach, or not active for a key of all active ones."""
        if self.workflows is None:
            if workflow.status != "active":
                raise ContractRefusal(409, "workflow_not_active")
        elif workflow.name not in self.workflows:
            raise ContractRefusal(404, "workflow_not_found")

    def start(self, workflow: Workflow, body: dict[str, Any], binding: str) -> Run | None:
        """The run that a start of a sound request replays, or None where it makes a new one.

        Raises:
            ContractRefusal: it does neither; whatever was found out behind the idempotency record stays bound to it.
        """
        asked = json.dumps([workflow.name, body], sort_keys=True)
        bound = self.bindings.get(binding)
        if bound is not None and bound[0] != asked:
            raise ContractRefusal(409, "idempotency_conflict")
        if bound is not None and bound[1] is not None:
            return bound[1]
        self.bindings[binding] = asked, None
        for refused in self._why_not(workflow, body):
            raise refused
        return None

    def _why_not(self, workflow: Workflow, body: dict[str, Any]) -> Iterator[ContractRefusal]:
        if self.workflows is not None and workflow.name not in self.workflows:
            yield ContractRefusal(404, "workflow_not_found")
        if workflow.status != "active":
            yield ContractRefusal(409, "workflow_not_active")
        if body.get("version", 1) > 1:
            yield ContractRefusal(422, "version_not_found")
        if not workflow.ready:
            yield ContractRefusal(409, "workflow_not_ready", ...)
        if "nobody_declared_this" in body.get("parameters", {}):
            yield ContractRefusal(400, "invalid_parameters", ...)
        policy = body.get("pii_policy_override", {})
        if not isinstance(policy, dict):
            yield ContractRefusal(400, "invalid_pii_policy", {"field": "pii_policy_override"})
        elif "min_confidence" in policy:
            yield ContractRefusal(400, "policy_not_tightening", {"field": "min_confidence"})
        if self.active_runs >= self.bound:
            yield ContractRefusal(429, "too_many_active_runs")
        if self.started >= self.quota:
            yield ContractRefusal(429, "quota_exceeded")

    def record(self, run: Run, binding: str) -> None:
        """A run that was started."""
        self.bindings[binding] = self.bindings[binding][0], run
        self.runs.append(run)
        self.started += 1

    def listed(self, *, statuses: tuple[str, ...] = (), workflow: str | None = None) -> list[str]:
        """The ids that GET /runs lists, newest first."""
        return [
            run.run_id
            for run in reversed(self.runs)
            if (not statuses or run.status in statuses) and (workflow is None or run.workflow.name == workflow)
        ]


def readable(run: Run) -> None:
    """Board and event log are there until the run is erased."""
    if run.erased_at:
        raise ContractRefusal(404, "not_found")


def not_redacted(_run: Run) -> None:
    """No workflow here has a policy."""
    raise ContractRefusal(404, "pii_redaction_not_applied")


def finished(run: Run) -> None:
    """Outputs and erasure wait for the end."""
    if run.active:
        raise ContractRefusal(409, "run_not_terminal", {"status": run.status})


def erasable(run: Run) -> None:
    finished(run)
    if run.erased_at:
        raise ContractRefusal(409, "already_purged", {"data_purged_at": run.erased_at})


def cancellable(run: Run) -> None:
    if not run.active:
        raise ContractRefusal(409, "already_terminal")


def with_status(workflow: Workflow, status: str) -> Workflow:
    return replace(workflow, status=status)

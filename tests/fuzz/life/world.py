"""World of the state machine: the service, the administrator's calls, and the comparison of answers with the model."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import grpc

from tests.fuzz.life.model import SCOPES, ContractRefusal, Key, Run, Secret
from tests.support.admin import Admin, scope_number, workflow_access
from tests.support.client import Caller
from tests.support.poll import until
from tests.support.service import Service
from tests.support.wire import Answer
from workflow_api.v1 import keys_pb2, runs_pb2

_SOURCES: Final = {"anywhere": (), "here": ("127.0.0.0/8",), "elsewhere": ("203.0.113.0/24", "2001:db8::/32")}
_PROBES: Final = {
    None: ("GET", "/me"),
    "workflows:read": ("GET", "/workflows/wf_none"),
    "runs:create": ("POST", "/runs/run_none/cancel"),
    "runs:read": ("GET", "/runs/run_none"),
    "outputs:read": ("GET", "/runs/run_none/outputs"),
    "runs:delete": ("DELETE", "/runs/run_none/data"),
}
_PROPAGATION_SECONDS: Final = 60


@dataclasses.dataclass(frozen=True)
class World:
    """A started service, and its workflows' ids by name."""

    service: Service
    ids: Mapping[str, str]

    @property
    def admin(self) -> Admin:
        return self.service.admin

    def create_key(self, **properties: Any) -> Key:
        """Makes a key; the properties are those of the model."""
        key = Key(key_id="", secrets={}, external_id="", **properties)
        made = self.admin.create_key(
            name="life",
            scopes=key.scopes,
            workflow_ids=self._listed(key.workflows),
            source_allow_list=_SOURCES[key.source],
            hours=_hours(key.in_hours),
            daily_run_quota=key.quota,
            max_concurrent_runs=key.bound,
        )
        key.key_id, key.external_id, key.secrets["current"] = made.key_id, made.external_id, made.key
        self.settle(key)
        return key

    def edit_key(self, key: Key, **properties: Any) -> None:
        """Changes what is named, in the service and in the model."""
        edited = dataclasses.replace(key, **properties)
        request = keys_pb2.UpdateKeyRequest(
            key_id=key.key_id,
            scopes=keys_pb2.ScopeList(scopes=[scope_number(scope) for scope in edited.scopes]),
            workflow_access=workflow_access(self._listed(edited.workflows)),
            source_allow_list=keys_pb2.SourceAllowList(ranges=_SOURCES[edited.source]),
            daily_run_quota=edited.quota,
            max_concurrent_runs=edited.bound,
        )
        hours = _hours(edited.in_hours)
        if hours is None:
            request.clear_allowed_hours = True
        else:
            request.allowed_hours.CopyFrom(keys_pb2.AllowedHours(start_hour=hours[0], end_hour=hours[1]))
        if refused_by_admin(lambda: self.admin.keys.UpdateKey(request)):
            assert key.state != "active"
            return
        assert key.state == "active"
        for name, value in properties.items():
            setattr(key, name, value)
        self.settle(key)

    def _listed(self, workflows: tuple[str, ...] | None) -> list[str] | None:
        return None if workflows is None else [self.ids[name] for name in workflows]

    def settle(self, key: Key) -> None:
        """Returns once every edge knows of a change, as the answers to each scope's calls show it."""
        probes = [(secret, scope) for secret in key.secrets for scope in _PROBES]
        what = f"{key} to be known"
        until(lambda: all(self._agrees(key, *probe) for probe in probes), what, seconds=_PROPAGATION_SECONDS)

    def _agrees(self, key: Key, secret: Secret, scope: str | None) -> bool:
        answer = self.caller(key, secret).call(*_PROBES[scope])
        try:
            key.admit(scope, secret)
        except ContractRefusal as refused:
            return (answer.status, answer.code) == (refused.status, refused.code)
        return answer.status in {200, 404}

    def record(self, key: Key) -> dict[str, Any]:
        """What GET /me shows of a key."""
        return {
            "key_id": key.key_id,
            "scopes": [scope for scope in SCOPES if scope in key.scopes],
            "workflow_access": {
                "mode": "all_active" if key.workflows is None else "explicit",
                "workflow_ids": self._listed(key.workflows) or [],
            },
            "daily_run_quota": key.quota,
            "quota_used_today": key.started,
            "max_concurrent_runs": key.bound,
            "active_runs": key.active_runs,
        }

    def caller(self, key: Key, secret: Secret = "current", *, old_external_id: bool = False) -> Caller:
        external_id = key.old_external_id if old_external_id else key.external_id
        assert external_id is not None
        return Caller(self.service.address, key.key_id, key.secrets[secret], external_id)

    def wait(self, run: Run) -> None:
        """Returns once a run is in the state of the model, read as an internal service does: its key may be closed."""
        until(lambda: self._stands(run), f"{run.status} of {run.run_id} in segment {run.segments}")

    def _stands(self, run: Run) -> bool:
        record = self.admin.runs.GetRun(runs_pb2.GetRunRequest(run_id=run.run_id))
        log = self.admin.runs.ListRunEvents(runs_pb2.ListRunEventsRequest(run_id=run.run_id))
        # Between a decision and its segment a run still waits.
        there = record.summary.status == runs_pb2.RunStatus.Value(f"RUN_STATUS_{run.status.upper()}")
        last = "step.progress" if run.status == "running" else "segment.ended"
        return there and len(log.segments) == run.segments and any(event.type == last for event in log.events)

    def approvals(self, run: Run) -> list[str]:
        request = runs_pb2.ListRunApprovalsRequest(run_id=run.run_id)
        return [approval.approval_id for approval in self.admin.runs.ListRunApprovals(request).items]


def _hours(inside: bool | None) -> tuple[int, int] | None:
    """A window of hours that holds the present for an hour at least, or does not for two."""
    if inside is None:
        return None
    hour = datetime.now(UTC).hour
    return (hour, (hour + 2) % 24) if inside else ((hour + 3) % 24, (hour + 5) % 24)


def refused_by_admin(act: Callable[[], object]) -> bool:
    """Whether an administrator's call was refused for what it asks, and not for a fault."""
    try:
        act()
    except grpc.RpcError as error:
        code = error.code()
        assert code in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}, error
        return True
    return False


def hold(answer: Answer, successes: Collection[int], judge: Callable[[], object]) -> bool:
    """Asserts that an answer is what the model says; returns whether it is a success.

    `judge` raises `ContractRefusal` for what must be refused, else the answer must be one of the successes.
    """
    assert answer.headers["X-Request-Id"], answer
    try:
        judge()
    except ContractRefusal as refused:
        assert (answer.status, answer.code) == (refused.status, refused.code), (answer, refused)
        error = answer.error
        assert error["request_id"] == answer.headers["X-Request-Id"]
        assert set(error) <= {"code", "message", "request_id", "details"}
        if refused.details is ...:
            assert error["details"], answer
        else:
            assert error.get("details") == refused.details, (answer, refused)
        assert (answer.headers["WWW-Authenticate"] == "Bearer") == (refused.status == 401)
        assert refused.status != 429 or int(answer.headers["Retry-After"]) > 0
        return False
    assert answer.status in successes, answer
    return True

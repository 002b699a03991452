"""Actions of administrators and approvers on keys, workflows and runs; each example has its own keys."""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, precondition, rule

from tests.fuzz.life.model import SCOPES, WORKFLOWS, Key, Run, with_status
from tests.fuzz.life.world import World, refused_by_admin
from workflow_api.v1 import keys_pb2, runs_pb2

_MAX_KEYS: Final = 3
_SWITCHED: Final = ("Silence", "Echo")

workflows = st.sampled_from([workflow.name for workflow in WORKFLOWS])
limits = st.integers(1, 3)
_reaches = st.none() | st.lists(workflows, min_size=1, max_size=4, unique=True).map(tuple)
_scopes = st.sampled_from(
    (*[SCOPES] * 5, *[tuple(scope for scope in SCOPES if scope != missing) for missing in SCOPES[1:]], ("runs:read",))
)
_sources = st.sampled_from(("anywhere", "anywhere", "anywhere", "here", "elsewhere"))
_hours = st.sampled_from((None, None, None, True, False))


class Administration(RuleBasedStateMachine):
    """Keys come and go, workflows are switched, approvals are decided."""

    world: World
    keys = Bundle("keys")
    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Key] = []
        self.workflows = {workflow.name: workflow for workflow in WORKFLOWS}

    def teardown(self) -> None:
        """Leaves nothing in flight, and every workflow as it was."""
        for run in (run for key in self.made for run in key.runs if run.active):
            self.world.admin.runs.CancelRun(runs_pb2.CancelRunRequest(run_id=run.run_id))
        for name in _SWITCHED:
            if self.workflows[name].status != "active":
                self.world.admin.set_workflow_status(name, active=True)

    @initialize(target=keys)
    def begin(self) -> Key:
        return self._created(scopes=SCOPES, workflows=None, source="anywhere", in_hours=None, quota=100, bound=100)

    @precondition(lambda self: len(self.made) < _MAX_KEYS)
    @rule(
        target=keys,
        scopes=_scopes,
        workflows=_reaches,
        source=_sources,
        in_hours=_hours,
        quota=st.integers(1, 4),
        bound=limits,
    )
    def create(self, **properties: Any) -> Key:
        return self._created(**properties)

    def _created(self, **properties: Any) -> Key:
        self.made.append(self.world.create_key(**properties))
        return self.made[-1]

    @rule(key=keys, scopes=_scopes, workflows=_reaches, quota=limits, bound=limits)
    def edit(self, key: Key, **properties: Any) -> None:
        self.world.edit_key(key, **properties)

    @rule(key=keys, source=_sources, in_hours=_hours)
    def close_or_open(self, key: Key, **properties: Any) -> None:
        self.world.edit_key(key, **properties)

    @rule(key=keys)
    def rotate(self, key: Key) -> None:
        request = keys_pb2.RotateKeyRequest(key_id=key.key_id, overlap=Duration(seconds=3_600))
        made = self._issued(key, lambda: self.world.admin.keys.RotateKey(request))
        if made:
            key.rotate(made.key_value)
            self.world.settle(key)

    @rule(key=keys)
    def issue_external_id(self, key: Key) -> None:
        request = keys_pb2.IssueExternalIdRequest(key_id=key.key_id)
        made = self._issued(key, lambda: self.world.admin.keys.IssueExternalId(request))
        if made:
            key.old_external_id, key.external_id = key.external_id, made.external_id
            self.world.settle(key)

    def _issued(self, key: Key, issue: Callable[[], keys_pb2.KeyCredentials]) -> keys_pb2.KeyCredentials | None:
        made: list[keys_pb2.KeyCredentials] = []
        assert refused_by_admin(lambda: made.append(issue())) == (key.state != "active")
        return made[0] if made else None

    @precondition(lambda self: len(self.made) > 1)
    @rule(key=keys)
    def revoke(self, key: Key) -> None:
        request = keys_pb2.RevokeKeyRequest(key_id=key.key_id)
        assert refused_by_admin(lambda: self.world.admin.keys.RevokeKey(request)) == (key.state == "deleted")
        if key.state == "active":
            key.state = "revoked"
            self.world.settle(key)

    @precondition(lambda self: any(key.state != "active" for key in self.made))
    @rule(key=keys)
    def delete(self, key: Key) -> None:
        request = keys_pb2.DeleteKeyRequest(key_id=key.key_id)
        assert refused_by_admin(lambda: self.world.admin.keys.DeleteKey(request)) == (key.state != "revoked")
        if key.state == "revoked":
            key.state = "deleted"

    @rule(name=st.sampled_from(_SWITCHED), active=st.booleans())
    def switch(self, name: str, active: bool) -> None:
        self.world.admin.set_workflow_status(name, active=active)
        self.workflows[name] = with_status(self.workflows[name], "active" if active else "inactive")

    @rule(run=runs, approve=st.sampled_from((True, True, False)))
    def decide(self, run: Run, approve: bool) -> None:
        pending = [] if run.erased_at else self.world.approvals(run)
        assert len(pending) == (run.status == "waiting_for_approval")
        if pending:
            self.world.admin.decide(pending[0], approve=approve)
            run.decide(approve=approve)
            self.world.wait(run)

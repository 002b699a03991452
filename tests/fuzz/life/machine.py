"""State machine of keys and runs: random calls and actions, whose answers must be those of the model."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, multiple, rule

from tests.fuzz.life import model, seeing
from tests.fuzz.life.administration import Administration, limits, workflows
from tests.fuzz.life.model import ContractRefusal, Key, Run
from tests.fuzz.life.starts import Starts, hows
from tests.fuzz.life.world import hold
from tests.support.client import with_query
from tests.support.wire import Answer

_keys = Administration.keys
_runs = Administration.runs
_Readable = Callable[[Run], None]
_See = Callable[[Run, Answer], None]
_by_owner = st.sampled_from((True, True, True, False))
_statuses = st.lists(st.sampled_from((*model.ACTIVE, "completed", "failed", "cancelled")), max_size=2, unique=True)
_LOGS: dict[str, _See] = {
    "/steps": seeing.see_steps,
    "/approvals": seeing.see_approvals,
    "/events": seeing.see_events,
}
_RESULTS: dict[str, _See] = {"/outputs": seeing.see_outputs, "/outputs.zip": seeing.see_bundle}


class Life(Starts):
    """What callers read and end."""

    cursors = Bundle("cursors")

    @rule(run=_runs, other=_keys, by_owner=_by_owner, how=hows)
    def read_run(self, run: Run, other: Key, by_owner: bool, how: str) -> None:
        self._read(run, other, by_owner, how, "", "runs:read", lambda _: None, seeing.see_detail)

    @rule(run=_runs, other=_keys, by_owner=_by_owner, how=hows, path=st.sampled_from(sorted(_LOGS)))
    def read_log(self, run: Run, other: Key, by_owner: bool, how: str, path: str) -> None:
        self._read(run, other, by_owner, how, path, "runs:read", model.readable, _LOGS[path])

    @rule(run=_runs, other=_keys, by_owner=_by_owner, how=hows, path=st.sampled_from(sorted(_RESULTS)))
    def read_results(self, run: Run, other: Key, by_owner: bool, how: str, path: str) -> None:
        self._read(run, other, by_owner, how, path, "outputs:read", model.finished, _RESULTS[path])

    @rule(run=_runs, other=_keys, by_owner=_by_owner, how=hows)
    def read_redaction(self, run: Run, other: Key, by_owner: bool, how: str) -> None:
        self._read(run, other, by_owner, how, "/pii-redaction", "runs:read", model.not_redacted, seeing.see_detail)

    def _read(
        self,
        run: Run,
        other: Key,
        by_owner: bool,
        how: str,
        path: str,
        scope: str,
        readable: _Readable,
        see: _See,
    ) -> None:
        answer, judge = self._of_run(run, other, by_owner, how, scope, readable, "GET", path)
        if hold(answer, (200,), judge):
            see(run, answer)

    def _of_run(
        self,
        run: Run,
        other: Key,
        by_owner: bool,
        how: str,
        scope: str,
        allowed: _Readable,
        method: str,
        path: str,
        body: object = None,
    ) -> tuple[Answer, Callable[[], None]]:
        key = self.owners[run.run_id] if by_owner else other
        caller, admit = self.caller(key, how)

        def judge() -> None:
            admit(scope)
            allowed(key.find(run))

        return caller.call(method, f"/runs/{run.run_id}{path}", json_body=body), judge

    @rule(run=_runs, other=_keys, by_owner=_by_owner, how=hows)
    def cancel(self, run: Run, other: Key, by_owner: bool, how: str) -> None:
        answer, judge = self._of_run(
            run, other, by_owner, how, "runs:create", model.cancellable, "POST", "/cancel", {"reason": "no longer"}
        )
        if hold(answer, (202,), judge):
            run.cancel()
            self.world.wait(run)

    @rule(run=_runs, other=_keys, by_owner=_by_owner, how=hows)
    def erase(self, run: Run, other: Key, by_owner: bool, how: str) -> None:
        answer, judge = self._of_run(run, other, by_owner, how, "runs:delete", model.erasable, "DELETE", "/data", {})
        if hold(answer, (202,), judge):
            run.erased_at = answer.json()["data_purged_at"]

    @rule(target=cursors, key=_keys, how=hows, statuses=_statuses, workflow=st.none() | workflows, limit=limits)
    def list_runs(
        self, key: Key, how: str, statuses: list[str], workflow: str | None, limit: int
    ) -> MultipleResults[tuple[str, Key]]:
        """Every page of a list; its first cursor is kept for others to try."""
        caller, admit = self.caller(key, how)
        query: dict[str, Any] = {"limit": limit}
        if statuses:
            query["status"] = ",".join(statuses)
        if workflow:
            query["workflow_id"] = self.world.ids[workflow]
        answer = caller.get("/runs", **query)
        if not hold(answer, (200,), lambda: admit("runs:read")):
            return multiple()
        found: list[str] = []
        cursors: list[str] = []
        while True:
            page = answer.json()
            found += [item["run_id"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            assert len(page["items"]) == limit
            cursors.append(page["next_cursor"])
            answer = caller.get("/runs", **query, cursor=cursors[-1])
        assert found == key.listed(statuses=tuple(statuses), workflow=workflow)
        return multiple(*((cursor, key) for cursor in cursors[:1]))

    @rule(issued=cursors, key=_keys, how=hows, path=st.sampled_from(("/runs", "/runs", "/workflows")))
    def use_a_cursor(self, issued: tuple[str, Key], key: Key, how: str, path: str) -> None:
        cursor, owner = issued
        caller, admit = self.caller(key, how)

        def judge() -> None:
            admit("runs:read" if path == "/runs" else "workflows:read")
            if path != "/runs" or key is not owner:
                raise ContractRefusal(400, "invalid_cursor")

        hold(caller.get(with_query(path, cursor=cursor)), (200,), judge)

    @rule(key=_keys, how=hows)
    def list_workflows(self, key: Key, how: str) -> None:
        caller, admit = self.caller(key, how)
        answer = caller.get("/workflows", limit=100)
        if hold(answer, (200,), lambda: admit("workflows:read")):
            shown = [item["name"] for item in answer.json()["items"] if item["name"] in self.workflows]
            assert shown == sorted(
                name
                for name, workflow in self.workflows.items()
                if workflow.status == "active" and (key.workflows is None or name in key.workflows)
            )

    @rule(key=_keys, how=hows, name=workflows, path=st.sampled_from(("", "/parameters")))
    def read_workflow(self, key: Key, how: str, name: str, path: str) -> None:
        caller, admit = self.caller(key, how)
        workflow = self.workflows[name]

        def judge() -> None:
            admit("workflows:read")
            key.reads(workflow)

        answer = caller.get(f"/workflows/{self.world.ids[name]}{path}")
        if hold(answer, (200,), judge) and not path:
            record = answer.json()
            assert record["status"] == workflow.status
            assert record["readiness"]["ready"] == (workflow.ready and workflow.status == "active")

    @rule(key=_keys, how=hows)
    def read_me(self, key: Key, how: str) -> None:
        caller, admit = self.caller(key, how)
        answer = caller.get("/me")
        if hold(answer, (200,), lambda: admit(None)):
            assert self.world.record(key).items() <= answer.json().items()

"""Interrupted runs are not resumed: state after a kill and after the next start. (contract 13.10)"""

import uuid
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any

import pytest

from tests.support.admin import Credentials
from tests.support.client import ACTIVE, Caller
from tests.support.expect import refused
from tests.support.poll import until
from tests.support.service import Service

pytestmark = pytest.mark.long


def known(service: Service, caller: Caller) -> Caller:
    """The same caller at the address that the restarted service took."""
    return service.caller(Credentials(caller.key_id, caller.key, caller.external_id))


def test_a_kill_orphans_running_segments_and_nothing_else(own_service: Service) -> None:
    service = own_service
    flows = service.admin.apply_test_workflows()
    caller = service.new_caller(max_concurrent_runs=3)
    key = uuid.uuid4().hex
    finished = caller.wait(caller.start(flows["Echo"], key, input_text="kept").json()["run_id"])
    events = caller.events(finished["run_id"])
    parked = caller.parked(flows["Gate"])
    first, second = caller.started(flows["Sleep"]), caller.started(flows["Sleep"])
    for run_id in (first, second):
        caller.wait_for_event(run_id, "step.progress")
    refused(caller.start(flows["Silence"]), 429, "too_many_active_runs")
    quota = caller.get("/me").json()["quota_used_today"]

    service.kill()
    service.start()
    caller = known(service, caller)

    for run_id in (first, second):
        run = caller.wait(run_id, "failed")
        assert run["error"]["code"] == "orphaned"
        assert run["finished_at"] is not None
    assert caller.run(parked["run_id"]) == parked
    assert caller.run(finished["run_id"]) == finished
    assert caller.events(finished["run_id"]) == events
    assert set(caller.outputs(finished["run_id"])) == {"echo/echo.txt", "result.json"}
    me = caller.get("/me").json()
    assert (me["active_runs"], me["quota_used_today"]) == (1, quota)
    assert caller.start(flows["Echo"], key, input_text="kept").status == 200
    refused(caller.start(flows["Echo"], key, input_text="other"), 409, "idempotency_conflict")

    [approval] = caller.get(f"/runs/{parked['run_id']}/approvals").json()["items"]
    service.admin.decide(approval["approval_id"], approve=True)
    assert caller.wait(parked["run_id"])["status"] == "completed"
    assert caller.finished(flows["Silence"])["status"] == "completed"

    # A cursor and a count survive an orderly end as well; the data folder holds everything.
    cursor = caller.get("/runs?limit=1").json()["next_cursor"]
    service.stop()
    service.start()
    caller = known(service, caller)
    assert caller.get("/runs", limit=1, cursor=cursor).status == 200
    assert until(lambda: caller.get("/me").json()["active_runs"] == 0, "free slots")


def test_a_kill_during_starts_loses_no_answered_start(own_service: Service) -> None:
    service = own_service
    flows = service.admin.apply_test_workflows()
    caller = service.new_caller()
    answered: dict[str, str] = {}
    tried: list[str] = []

    def start(_: int) -> None:
        while len(tried) < 90:
            tried.append(key := uuid.uuid4().hex)
            try:
                answer = caller.start(flows["Park"], key)
            except (OSError, HTTPException):
                return
            if answer.status == 201:
                answered[key] = answer.json()["run_id"]

    with ThreadPoolExecutor(8) as pool:
        starts = [pool.submit(start, number) for number in range(8)]
        until(lambda: len(answered) > 30, "answered starts")
        service.kill()
        for future in starts:
            future.result()

    service.start()
    caller = known(service, caller)

    def counted() -> tuple[int, dict[str, Any]] | None:
        """Both counts of one moment: on a database that others may share, what ran is orphaned after the start."""
        before, page, after = (caller.get(path).json() for path in ("/me", "/runs?limit=100", "/me"))
        runs = {run["run_id"]: run for run in page["items"]}
        active = len([run for run in runs.values() if run["status"] in ACTIVE])
        steady = before["active_runs"] == after["active_runs"] == active
        return (after["quota_used_today"], runs) if steady else None

    quota, runs = until(counted, "counts that agree") or (0, {})
    assert set(answered.values()) <= set(runs)
    assert quota == len(runs)
    replays = {key: caller.start(flows["Park"], key) for key in answered}
    assert {key: replay.json()["run_id"] for key, replay in replays.items()} == answered
    assert {replay.status for replay in replays.values()} == {200}
    # What was interrupted before its answer either happened whole or not at all.
    assert {caller.start(flows["Park"], key).status for key in set(tried) - set(answered)} <= {200, 201, 429}
    for run_id in runs:
        caller.wait(run_id, "waiting_for_approval", "failed")
    caller.cancel_active()

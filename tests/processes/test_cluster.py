"""Edges, backends and workers, two of each, on one PostgreSQL."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from backend.common.clock import HOUR_MS
from backend.runtime.engines.dbos import DbosBackend
from tests.processes.conftest import Cluster
from tests.support.client import Caller
from tests.support.part import refused
from tests.support.poll import until
from workflow_api.v1 import logs_pb2

SPEAKER = """
kind: Agent
name: speaker
type: python
code: |
  import time
  def run(context):
      print("began", flush=True)
      while True:
          time.sleep(0.2)
          print("tick", flush=True)
---
kind: Workflow
name: Speaks
status: active
steps:
  - {step: speak, agent: speaker, environment: standard}
"""


def test_a_run_is_started_at_one_edge_and_read_at_another(cluster: Cluster) -> None:
    here, there = cluster.callers()
    run_id = here.started(cluster.flows["Echo"], input_text="hello")
    run = there.wait(run_id, "completed")
    assert run["result"]["text"] == "hello"
    (output, *_) = there.get(f"/runs/{run_id}/outputs").json()["items"]
    assert here.get(output["download"]["path"].removeprefix("/api/v1")).body
    assert here.delete(f"/runs/{run_id}/data").status == 202
    assert there.get(f"/runs/{run_id}/events").status == 404


def test_a_worker_executes_the_code_of_a_folder(cluster: Cluster) -> None:
    agent = "kind: Agent\nname: folder\ntype: python\nsource: agents\nentrypoint: main:run\n"
    workflow = "kind: Workflow\nname: Folder\nstatus: active\nsteps: [{step: a, agent: folder}]\nresult: {step: a}\n"
    files = {
        "agents/main.py": b"from words import count\ndef run(context):\n    return count(context.input_text)\n",
        "agents/words.py": b"def count(text):\n    return len(text.split())\n",
    }
    flows = cluster.admins[0].apply(f"{agent}---\n{workflow}", attached=files)
    here, there = cluster.callers()
    run_id = here.started(flows["Folder"], input_text="two words")
    assert there.wait(run_id, "completed")["result"] == 2


def test_a_run_continues_after_an_approval_at_another_backend(cluster: Cluster) -> None:
    here, there = cluster.callers()
    run_id = here.started(cluster.flows["Gate"], input_text="x")
    here.wait(run_id, "waiting_for_approval")
    (approval,) = there.get(f"/runs/{run_id}/approvals").json()["items"]
    cluster.admins[1].decide(approval["approval_id"], approve=True)
    assert here.wait(run_id, "completed")["counts"]["steps_completed"] == 3
    assert [segment["ordinal"] for segment in here.events(run_id)["segments"]] == [1, 2]


def test_a_run_is_cancelled_in_mid_step_from_another_edge(cluster: Cluster) -> None:
    here, there = cluster.callers()
    run_id = here.started(cluster.flows["Sleep"], parameters={"seconds": 3600})
    here.wait_for_event(run_id, "step.progress")
    assert there.post(f"/runs/{run_id}/cancel").status == 202
    here.wait(run_id, "cancelled")
    assert here.get("/me").json()["active_runs"] == 0


def test_a_log_is_followed_at_any_backend_while_a_worker_runs_the_step(cluster: Cluster) -> None:
    here, _ = cluster.callers()
    (workflow_id,) = cluster.admins[0].apply(SPEAKER).values()
    run_id = here.started(workflow_id)
    request = logs_pb2.StreamRunLogsRequest(run_id=run_id, follow=True)
    followed = [admin.logs.StreamRunLogs(request, timeout=120) for admin in cluster.admins]
    seen = [next(stream) for stream in followed]
    assert [part.text.splitlines()[0] for part in seen] == ["began"] * 2
    assert here.run(run_id)["status"] == "running"
    here.post(f"/runs/{run_id}/cancel")
    for stream in followed:
        assert "tick" in "".join(part.text for part in stream)
    here.wait(run_id, "cancelled")


def test_a_key_with_many_queued_runs_does_not_delay_anothers_first(cluster: Cluster) -> None:
    (busy, _), (other, _) = cluster.callers(), cluster.callers()
    with ThreadPoolExecutor(16) as pool:
        runs = list(pool.map(lambda _: busy.started(cluster.flows["Sleep"], parameters={"seconds": 2}), range(90)))
    assert other.finished(cluster.flows["Echo"])["status"] == "completed"
    assert any(busy.run(run_id)["status"] == "queued" for run_id in runs)
    for run_id in runs:
        busy.post(f"/runs/{run_id}/cancel")
    until(lambda: busy.get("/me").json()["active_runs"] == 0, "every slot to be free")


def _without_owner(cluster: Cluster) -> int:
    """How many segments run under a process that holds no lease."""
    with psycopg.connect(cluster.database) as connection:
        found = connection.execute(
            "SELECT count(*) FROM segments WHERE state = 'running' AND owner NOT IN (SELECT owner FROM workers"
            " WHERE lease_until > extract(epoch FROM clock_timestamp()) * 1000)"
        ).fetchone()
    assert found is not None
    return int(found[0])


def _running(cluster: Cluster, caller: Caller) -> list[str]:
    """Starts more runs than one worker executes at once, one at a time, so that either worker has some."""
    runs = []
    for _ in range(12):
        runs.append(caller.started(cluster.flows["Sleep"], parameters={"seconds": 3600}))
        caller.wait_for_event(runs[-1], "step.progress")
    return runs


def test_a_killed_workers_runs_are_orphaned_and_no_others(cluster: Cluster) -> None:
    caller, _ = cluster.callers()
    runs = _running(cluster, caller)
    cluster.workers[0].kill()
    until(lambda: _without_owner(cluster) > 0, "its lease to end")
    cluster.workers[0].start()

    until(lambda: _without_owner(cluster) == 0, "what it ran to end")
    now = [caller.run(run_id) for run_id in runs]
    lost = [run["error"]["code"] for run in now if run["status"] == "failed"]
    assert set(lost) == {"orphaned"}
    assert 4 <= len(lost) <= 8
    assert [run["status"] for run in now].count("running") == 12 - len(lost)
    for run_id in runs:
        caller.post(f"/runs/{run_id}/cancel")
    until(lambda: caller.get("/me").json()["active_runs"] == 0, "every slot to be free")
    assert caller.finished(cluster.flows["Echo"])["status"] == "completed"


def test_a_worker_that_was_suspended_past_its_lease_ends_its_steps(cluster: Cluster) -> None:
    caller, _ = cluster.callers()
    runs = _running(cluster, caller)
    cluster.workers[1].signal(signal.SIGSTOP)
    try:
        until(lambda: any(caller.run(run_id)["status"] == "failed" for run_id in runs), "what it ran to end")
    finally:
        cluster.workers[1].signal(signal.SIGCONT)
    until(lambda: "The lease of" in cluster.workers[1].log(), "the worker to notice")
    for run_id in runs:
        caller.post(f"/runs/{run_id}/cancel")
    until(lambda: caller.get("/me").json()["active_runs"] == 0, "every slot to be free")
    for _ in range(8):
        assert caller.finished(cluster.flows["Echo"])["status"] == "completed"


def test_a_worker_that_is_asked_to_end_finishes_its_steps(cluster: Cluster) -> None:
    caller, _ = cluster.callers()
    runs = [caller.started(cluster.flows["Sleep"], parameters={"seconds": 3}) for _ in range(4)]
    for run_id in runs:
        caller.wait_for_event(run_id, "step.progress")
    for worker in cluster.workers:
        worker.stop()
    waiting = caller.started(cluster.flows["Echo"])
    assert [caller.run(run_id)["status"] for run_id in runs] == ["completed"] * 4
    assert caller.run(waiting)["status"] == "queued"
    for worker in cluster.workers:
        worker.start()
    assert caller.wait(waiting)["status"] == "completed"


def test_each_part_is_restarted_without_a_lost_run(cluster: Cluster) -> None:
    here, there = cluster.callers()
    parked = here.started(cluster.flows["Gate"])
    here.wait(parked, "waiting_for_approval")
    for part, caller in ((cluster.workers[0], here), (cluster.workers[1], there)):
        part.stop()
        assert caller.finished(cluster.flows["Echo"])["status"] == "completed"
        part.start()
    (approval,) = here.get(f"/runs/{parked}/approvals").json()["items"]
    cluster.admins[0].decide(approval["approval_id"], approve=True)
    assert there.wait(parked)["status"] == "completed"


def test_the_queue_keeps_no_ended_segments(cluster: Cluster) -> None:
    caller, _ = cluster.callers()
    ended = caller.finished(cluster.flows["Echo"])["run_id"]
    queue = DbosBackend(cluster.database)
    queue.purge(round(time.time() * 1_000) + HOUR_MS, frozenset(), lambda: True)
    queue.stop()
    with psycopg.connect(cluster.database) as connection:
        for table in ("workflow_status", "workflow_input", "workflow_output"):
            left = connection.execute(f"SELECT count(*) FROM dbos.{table}").fetchone()
            assert left == (0,), (ended, table)


@pytest.mark.parametrize(
    ("settings", "command", "said"),
    [
        (
            {"RUNTIME_ENGINE": "dbos", "OBJECTS_FOLDER": "/objects"},
            "backend",
            "dbos needs PostgreSQL: set backend.database",
        ),
        ({"RUNTIME_ENGINE": "dbos", "BACKEND_DATABASE": "postgresql://x@127.0.0.1:1/x"}, "backend", "objects.folder"),
        ({}, "worker", "Workers need the engine dbos"),
        ({"BACKEND_DATABASE": "postgresql://x@127.0.0.1:1/x"}, "backend", "The database cannot be used"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(
    tmp_path: Path, settings: dict[str, str], command: str, said: str
) -> None:
    variables = {f"WORKFLOW_API_{name}": value for name, value in settings.items()}
    assert said in refused(command, "--data", str(tmp_path / "data"), variables=variables)

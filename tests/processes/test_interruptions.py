"""A worker that dies costs work, not the run's result: what had completed is not executed again."""

import pytest

from tests.support.deployment import Deployment
from tests.support.poll import until

WORKFLOW = """
kind: Environment
name: standard
---
kind: Agent
name: counter
type: python
code: |
  import random
  def run(context):
      return random.random()
---
kind: Agent
name: slow
type: python
code: |
  import time
  def run(context):
      context.progress("waits")
      time.sleep(context.parameters["seconds"])
      return context.needs["count"]
---
kind: Workflow
name: Lasting
status: active
on_interruption: resume
parameters: [{name: seconds, type: integer, default: 15}]
steps:
  - {step: count, agent: counter, environment: standard}
  - {step: wait, agent: slow, environment: standard, needs: [count]}
result: {step: wait}
"""


@pytest.mark.parametrize("also_a_backend", [False, True])
def test_kill_9_of_a_worker_in_a_second_step_repeats_no_first_step(
    deployment: Deployment, also_a_backend: bool
) -> None:
    first, backend, worker = deployment.backend(), deployment.backend(), deployment.worker()
    edge = deployment.edge(backend)
    admin = deployment.admin(backend)
    (workflow_id,) = admin.apply(WORKFLOW).values()
    caller = deployment.caller(edge, admin)
    run_id = caller.started(workflow_id)
    caller.wait_for_event(run_id, "step.progress")
    worker.kill()
    if also_a_backend:
        first.kill()
    worker.start()
    ended = caller.wait(run_id, "failed")
    assert ended["error"]["code"] == "orphaned"
    until(lambda: caller.run(run_id)["resumed_by"], "the run that resumes it")
    new = caller.wait(caller.run(run_id)["resumed_by"], "completed")
    assert new["resumed_from"] == run_id
    counted, waited = caller.get(f"/runs/{new['run_id']}/steps").json()["items"]
    assert (counted["reused_from"], counted["attempt"], waited["attempt"]) == (run_id, 0, 1)
    assert {run["run_id"] for run in caller.get("/runs").json()["items"]} == {run_id, new["run_id"]}
    (before, _) = caller.get(f"/runs/{run_id}/steps").json()["items"]
    assert before["attempt"] == 1

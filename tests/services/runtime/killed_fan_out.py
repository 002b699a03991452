"""A process that a test kills in the middle of a fan-out: `first` runs it, `second` resumes the orphaned run."""

import json
import sys
import time
from pathlib import Path
from typing import Final

from backend.common.clock import system_clock
from backend.common.paging import Cursors
from backend.common.secrets import Secrets
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.storage.factory import DataFolder
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.poll import until
from workflow_api.v1 import runs_pb2

# Only the secret differs when the run is resumed, and that is not part of what is compared.
AGENT: Final = """
import random, time
def run(context):
    if context.item >= 3 and context.secret("luck") == "bad-luck-today":
        time.sleep(600)
    (context.outputs / "rolled.txt").write_text(str(random.random()))
    return [context.item, random.random()]
"""
ITEMS: Final = 6


def main(folder: Path, part: str) -> None:
    data = DataFolder(folder / "data")
    database = data.open_database()
    deployment = database.write(lambda tx: deployment_sql.get_or_create(tx, "dep-test"))
    luck = "bad-luck-today" if part == "first" else "good-luck-today"
    services = Services(
        database,
        system_clock,
        deployment.deployment_id,
        Cursors(bytes.fromhex(deployment.cursor_secret)),
        secrets=Secrets({"luck": "env:LUCK"}, {"LUCK": luck}),
    )
    world = RuntimeWorld(services, system_clock, folder)  # type: ignore[arg-type]  # the real clock
    world.apply(json.dumps({"kind": "Agent", "name": "lucky", "type": "python", "code": AGENT, "secrets": ["luck"]}))
    world.local_runtime = world.new_runtime(folder / "data", secrets=services.secrets)
    world.local_runtime.start()
    if part == "first":
        steps = [agent_step("page", "lucky", for_each=json.dumps(list(range(ITEMS))))]
        run_id = world.run("Killed", steps, workflow={"result": {"step": "page"}})
        until(lambda: world.steps(run_id)["page"].items.completed == 3, "three items")
        (folder / "run.txt").write_text(f"{run_id} {world.key}")
        _print({"run_id": run_id, "values": _values(world, run_id)})
        time.sleep(600)
    ended, world.key = (folder / "run.txt").read_text().split()
    row = world.until_ended(ended)
    items = world.steps(ended)["page"].items
    request = runs_pb2.ResumeRunRequest(run_id=ended, idempotency_key="resume")
    answer: runs_pb2.ResumeRunResponse = world.runs("ResumeRun", request)
    resumed = world.until_ended(answer.run.summary.run_id)
    events = world.events(resumed.run_id, page_size=500).events
    _print(
        {
            "ended": [row.status, row.error_code, items.total, items.completed, items.failed],
            "why": answer.executed[0].why,
            "resumed": [resumed.status, resumed.error_message],
            "result": json.loads(resumed.result or "null"),
            "attempts": {
                data["item_index"]: data["attempt"]
                for data in (json.loads(event.data) for event in events if event.type == "step.item_completed")
            },
            "paths": sorted(one.path for one in world.dump(f"outputs WHERE run_id = '{resumed.run_id}'")),
        }
    )
    world.local_runtime.stop()


def _values(world: RuntimeWorld, run_id: str) -> list[object]:
    rows = world.dump(f"step_items WHERE run_id = '{run_id}' AND status = 'completed' ORDER BY item_index")
    return [json.loads(row.value) for row in rows]


def _print(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

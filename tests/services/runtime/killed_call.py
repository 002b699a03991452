"""A process whose run waits for the approval of a call, for a test that kills it: `first` parks, `second` goes on."""

import sys
import time
from pathlib import Path

from backend.common.clock import system_clock
from backend.common.paging import Cursors
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.settings import ModelProvider
from backend.storage.factory import DataFolder
from tests.services.runtime.conftest import RuntimeWorld
from tests.services.runtime.test_agent_tools import SECRETS, asked, model, tool
from workflow_api.v1 import runs_pb2


def main(folder: Path, part: str, base_url: str) -> None:
    data = DataFolder(folder / "data")
    database = data.open_database()
    deployment = database.write(lambda tx: deployment_sql.get_or_create(tx, "dep-test"))
    services = Services(
        database,
        system_clock,
        deployment.deployment_id,
        Cursors(bytes.fromhex(deployment.cursor_secret)),
        secrets=SECRETS,
    )
    world = RuntimeWorld(services, system_clock, folder)  # type: ignore[arg-type]  # the real clock
    runtime = world.new_runtime(folder / "data", secrets=SECRETS, models={"openai": ModelProvider("ours", base_url)})
    runtime.start()
    if part == "first":
        tool(world)
        model(world, {"agent": "rates", "confirm": True})
        run_id = asked(world)
        world.until_status(run_id, "waiting_for_approval")
        (folder / "run.txt").write_text(run_id)
        _print("ready")
        time.sleep(600)
    run_id = (folder / "run.txt").read_text()
    (waiting,) = world.runs("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest(run_id=run_id)).items
    world.decide(waiting.approval.approval_id, True)
    row = world.until_ended(run_id)
    _print(f"{waiting.tool_call.arguments} {row.status} {row.steps_completed}")
    runtime.stop()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])

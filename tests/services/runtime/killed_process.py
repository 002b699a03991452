"""A process that runs segments, for tests that kill it: `first` starts runs, `second` prints their statuses."""

import sys
import time
from pathlib import Path

from backend.common.clock import system_clock
from backend.common.paging import Cursors
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.storage.factory import DataFolder
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate

_RUNS = "runs.txt"


def main(folder: Path, part: str) -> None:
    data = DataFolder(folder / "data")
    database = data.open_database()
    deployment = database.write(lambda tx: deployment_sql.ensure(tx, "dep-test"))
    services = Services(
        database, system_clock, deployment.deployment_id, Cursors(bytes.fromhex(deployment.cursor_secret))
    )
    world = RuntimeWorld(services, system_clock, folder)  # type: ignore[arg-type]  # the real clock
    world.local_runtime.start()
    if part == "first":
        completed = world.run("Completed", [agent_step("main")])
        world.until_ended(completed)
        parked = world.run("Parked", [gate("review")])
        world.until_status(parked, "waiting_for_approval")
        running = world.run("Running", [agent_step("slow", "marked")], input_text=f"marker-{folder.name}")
        world.until_event(running, "step.progress")
        (folder / _RUNS).write_text(f"{running} {parked} {completed}")
        _print("ready")
        time.sleep(600)
    running, parked, completed = (folder / _RUNS).read_text().split()
    row = world.row(running)
    active = world.count("runs", "finished_at IS NULL")
    _print(f"{row.status}/{row.error_code} {world.status(parked)} {world.status(completed)} active={active}")
    world.local_runtime.stop()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

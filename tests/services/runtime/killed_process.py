"""A process that runs segments, for tests that kill it: `first` starts runs, `second` prints their statuses."""

import sys
import time
from pathlib import Path

from backend.common.clock import system_clock
from backend.common.paging import Cursors
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.storage.factory import DataFolder
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate, manifest
from tests.support.poll import until

_RUNS = "runs.txt"


def main(folder: Path, part: str) -> None:
    data = DataFolder(folder / "data")
    database = data.open_database()
    deployment = database.write(lambda tx: deployment_sql.get_or_create(tx, "dep-test"))
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
        world.apply(manifest("Sleeping", [agent_step("slow", "sleeper")]))
        parent = world.run(
            "Parent", [{"step": "below", "workflow": "Parked"}, {"step": "beside", "workflow": "Sleeping"}]
        )
        until(lambda: world.count("runs", "parent_run_id IS NOT NULL AND started_at IS NOT NULL") == 2, "the children")
        (folder / _RUNS).write_text(f"{running} {parked} {completed} {parent}")
        _print("ready")
        time.sleep(600)
    running, parked, completed, parent = (folder / _RUNS).read_text().split()
    row = world.row(running)
    active = world.count("runs", "finished_at IS NULL")
    children = sorted(child.status for child in world.dump(f"runs WHERE parent_run_id = '{parent}'"))
    _print(
        f"{row.status}/{row.error_code} {world.status(parked)} {world.status(completed)} active={active} "
        f"{world.status(parent)}/{'+'.join(children)}"
    )
    world.local_runtime.stop()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

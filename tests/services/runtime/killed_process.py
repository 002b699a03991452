"""A process that runs segments, for tests that kill it: `first` starts runs and waits, `second` tells what became."""

import sys
import time
from pathlib import Path

from backend.clock import system_clock
from backend.cursors import Cursors
from backend.deployment import sql as deployment_sql
from backend.services import Services
from backend.storage.factory import DataFolder
from tests.services.runtime.conftest import Live, agent_step, gate

_RUNS = "runs.txt"


def main(folder: Path, part: str) -> None:
    data = DataFolder(folder / "data")
    database = data.open_database()
    deployment = database.write(lambda tx: deployment_sql.ensure(tx, "dep-test"))
    services = Services(
        database, system_clock, deployment.deployment_id, Cursors(bytes.fromhex(deployment.cursor_secret))
    )
    live = Live(services, system_clock, folder)  # type: ignore[arg-type]  # the real clock
    live.live.start()
    if part == "first":
        completed = live.run("Completed", [agent_step("main")])
        live.until_ended(completed)
        parked = live.run("Parked", [gate("review")])
        live.until_status(parked, "waiting_for_approval")
        running = live.run("Running", [agent_step("slow", "marked")], input_text=f"marker-{folder.name}")
        live.until_event(running, "step.progress")
        (folder / _RUNS).write_text(f"{running} {parked} {completed}")
        _tell("ready")
        time.sleep(600)
    running, parked, completed = (folder / _RUNS).read_text().split()
    row = live.row(running)
    active = live.count("runs", "finished_at IS NULL")
    _tell(f"{row.status}/{row.error_code} {live.status(parked)} {live.status(completed)} active={active}")
    live.live.stop()


def _tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

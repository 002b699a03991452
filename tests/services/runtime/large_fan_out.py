"""A process with a fan-out of 1,000 items, with values of 8 KB and files of 128 KiB: prints how many MiB it grew by."""

import json
import sys
import threading
from pathlib import Path
from typing import Final

from backend.common.clock import system_clock
from backend.common.paging import Cursors
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.storage.factory import DataFolder
from tests.services.runtime.conftest import RuntimeWorld, agent_step

ITEMS: Final = 1_000
_VALUE: Final = 8_000
_FILE: Final = 128 * 1024
_AGENTS: Final = {
    "lister": f"def run(context): return list(range(3 if context.input_text else {ITEMS}))",
    "large": f"""
def run(context):
    (context.outputs / 'file.bin').write_bytes(b'x' * {_FILE})
    return 'x' * {_VALUE}
""",
}


def main(folder: Path) -> None:
    data = DataFolder(folder / "data")
    database = data.open_database()
    deployment = database.write(lambda tx: deployment_sql.get_or_create(tx, "dep-test"))
    services = Services(
        database, system_clock, deployment.deployment_id, Cursors(bytes.fromhex(deployment.cursor_secret))
    )
    world = RuntimeWorld(services, system_clock, folder)  # type: ignore[arg-type]  # the real clock
    for name, code in _AGENTS.items():
        world.apply(json.dumps({"kind": "Agent", "name": name, "type": "python", "code": code}))
    world.local_runtime.start()
    steps = [agent_step("list", "lister"), agent_step("page", "large", "list", for_each="needs.list")]
    parallel = {"settings": {"parallel_steps": 2}}
    world.until_ended(world.run("Large", steps, workflow=parallel, input_text="few"))
    before = _resident("VmRSS")
    ended, most = threading.Event(), [before]

    def watch() -> None:
        while not ended.wait(0.05):
            most[0] = max(most[0], _resident("VmRSS"))

    watching = threading.Thread(target=watch)
    watching.start()
    run_id = world.started("Large")
    while world.row(run_id).finished_at is None:
        ended.wait(0.2)
    ended.set()
    watching.join()
    (size,) = [len(row.value) for row in world.dump(f"steps WHERE run_id = '{run_id}' AND step = 'page'")]
    grown = (most[0] - before) / 1024
    sys.stdout.write(json.dumps({"status": world.status(run_id), "bytes": size, "grown_mib": grown}) + "\n")
    world.local_runtime.stop()


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

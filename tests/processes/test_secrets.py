"""Named secrets of agents where workers are processes of their own."""

import hashlib
from pathlib import Path

from tests.support.deployment import Deployment
from tests.support.planted import plant
from tests.support.postgresql import Postgresql, tables_holding

FIRST, SECOND = "tok-first-4f1D7cQxZ09aLm", "tok-later-8e2K5vWyB31cRt"
MANIFEST = """
kind: Agent
name: caller
type: python
secrets: [rates-api]
code: |
  import hashlib
  def run(context):
      key = context.secret("rates-api")
      print("sends", key)
      (context.outputs / "sent.txt").write_text(f"Bearer {key}")
      return {"digest": hashlib.sha256(key.encode()).hexdigest(), "before": context.needs.get("first")}
---
kind: Workflow
name: Calls
status: active
steps:
  - {step: first, agent: caller}
  - {step: look, approval: {title: Look}, needs: [first]}
  - {step: second, agent: caller, needs: [first, look]}
result: {step: second}
"""


def test_a_worker_reads_the_secret_anew_after_an_approval_and_stores_it_nowhere(
    tmp_path: Path, postgresql_server: Postgresql
) -> None:
    plant(FIRST, SECOND)
    key = tmp_path / "key"
    key.write_text(FIRST)
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[secrets]\nrates-api = "file:{key}"\n')
    with postgresql_server.database() as database:
        deployment = Deployment(tmp_path, database, CONFIG=str(settings))
        try:
            backend, _ = deployment.backend(), deployment.worker()
            admin, edge = deployment.admin(backend), deployment.edge(backend)
            caller = deployment.caller(edge, admin)
            run_id = caller.started(admin.apply(MANIFEST)["Calls"])
            caller.wait(run_id, "waiting_for_approval")
            key.write_text(SECOND)
            (approval,) = caller.get(f"/runs/{run_id}/approvals").json()["items"]
            admin.decide(approval["approval_id"], approve=True)
            result = caller.wait(run_id, "completed")["result"]
            assert [result["before"]["digest"], result["digest"]] == [
                hashlib.sha256(value.encode()).hexdigest() for value in (FIRST, SECOND)
            ]
            for value in (FIRST, SECOND):
                assert list(tables_holding(database, value)) == []
                files = [path for path in tmp_path.rglob("*") if path.is_file() and path != key]
                assert [path for path in files if value.encode() in path.read_bytes()] == []
        finally:
            deployment.stop()

"""Outcomes of connection tests, as they are recorded and shown."""

from backend.audit import sql as audit
from backend.connectors.connection_tests import Check, Outcome
from backend.services import Services
from backend.storage.database import Tx
from backend.workflows import resources_sql
from backend.workflows.resources_sql import ResourceRow
from contract.times import to_duration, to_timestamp
from workflow_api.v1 import workflows_pb2


def record_connection_test(
    services: Services, row: ResourceRow, outcome: Outcome, actor: str
) -> workflows_pb2.ConnectorTest:
    """Records the outcome for the tested version of a connector, audits it, and returns it with all its checks."""
    now = services.clock()

    def work(tx: Tx) -> None:
        resources_sql.record_test(
            tx,
            connector_id=row.resource_id,
            version=row.version,
            passed=outcome.passed,
            message=outcome.message,
            now=now,
        )
        details = {"name": row.name, "version": row.version, "passed": outcome.passed}
        audit.record(tx, at=now, actor=actor, action="connector.tested", target=row.resource_id, details=details)

    services.database.write(work)
    return workflows_pb2.ConnectorTest(
        connector_id=row.resource_id,
        name=row.name,
        version=row.version,
        passed=outcome.passed,
        message=outcome.message,
        tested_at=to_timestamp(now),
        checks=[_check(check) for check in outcome.checks],
    )


def _check(check: Check) -> workflows_pb2.ConnectorCheck:
    return workflows_pb2.ConnectorCheck(
        place=check.place,
        passed=check.passed,
        empty=check.empty,
        http_status=check.http_status or None,
        code=check.code,
        answer=check.answer,
        remedy=check.remedy,
        took=to_duration(check.milliseconds),
    )

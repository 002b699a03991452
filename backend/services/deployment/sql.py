"""SQL of the deployment record."""

import secrets

from sqlalchemy import bindparam, insert, literal_column, update

from backend.storage.database import Tx
from backend.storage.statements import Command, Query, select_row
from backend.storage.tables.deployment import DeploymentRow, deployments
from contract.fields import default_value
from workflow_api.v1 import deployment_pb2

_INSERT = Command(insert(deployments), [column.name for column in deployments.columns])
_SELECT = Query(DeploymentRow, select_row(DeploymentRow, deployments))
_CHANGEABLE = (
    "governed",
    "api_enabled",
    "licence_state",
    "licence_reason",
    "licence_enforcement_status",
    "license_id",
    "retention_days",
)
_UPDATE = Command(
    update(deployments).values(
        {name: bindparam(f"new_{name}") for name in _CHANGEABLE}
        | {"revision": deployments.c.revision + literal_column("1")}
    )
)
_TOUCH = Command(update(deployments).values(revision=deployments.c.revision + literal_column("1")))
_FIRST_KEY = Command(update(deployments).values(any_key_ever=literal_column("1")))


def get_or_create(tx: Tx, deployment_id: str) -> DeploymentRow:
    """Returns the deployment's row, or creates it governed, enabled and licensed (contract 10.4)."""
    row = tx.first(_SELECT)
    if row is None:
        tx.enqueue(
            _INSERT,
            deployment_id=deployment_id,
            governed=1,
            api_enabled=1,
            any_key_ever=0,
            licence_state="active",
            licence_reason=None,
            licence_enforcement_status=None,
            license_id=None,
            retention_days=default_value(deployment_pb2.Deployment.DESCRIPTOR.fields_by_name["retention"]),
            revision=1,
            cursor_secret=secrets.token_hex(32),
        )
        row = tx.one(_SELECT)
    return row


def get(tx: Tx) -> DeploymentRow:
    """Returns the deployment's row."""
    return tx.one(_SELECT)


def change(tx: Tx, changes: dict[str, object]) -> DeploymentRow:
    """Writes the given columns and returns the changed row."""
    values = tx.one(_SELECT)._asdict() | changes
    tx.enqueue(_UPDATE, **{f"new_{name}": values[name] for name in _CHANGEABLE})
    return tx.one(_SELECT)


def raise_revision(tx: Tx) -> None:
    """Raises the revision, so that every edge reads the changed keys."""
    tx.enqueue(_TOUCH)


def record_first_key(tx: Tx) -> None:
    """Records that the deployment had a key, even if the key is removed later."""
    tx.enqueue(_FIRST_KEY)

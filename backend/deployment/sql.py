"""SQL of the deployment record."""

import secrets
from typing import Any

from sqlalchemy import bindparam, insert, literal_column, select, update

from backend.storage.database import Tx
from backend.storage.statements import prepare
from backend.storage.tables.deployment import deployments
from contract.defaults import default_value
from workflow_api.v1 import deployment_pb2

_INSERT = prepare(insert(deployments), [column.name for column in deployments.columns])
_SELECT = prepare(select(deployments))
_CHANGEABLE = (
    "governed",
    "api_enabled",
    "licence_state",
    "licence_reason",
    "licence_enforcement_status",
    "license_id",
    "retention_days",
)
_UPDATE = prepare(
    update(deployments).values(
        {name: bindparam(f"new_{name}") for name in _CHANGEABLE}
        | {"revision": deployments.c.revision + literal_column("1")}
    )
)
_TOUCH = prepare(update(deployments).values(revision=deployments.c.revision + literal_column("1")))
_FIRST_KEY = prepare(update(deployments).values(any_key_ever=literal_column("1")))


def ensure(tx: Tx, deployment_id: str) -> Any:
    """The deployment's row; a fresh one is governed, enabled and licensed (DECISIONS.md, 2)."""
    row = tx.one(_SELECT)
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
            retention_days=default_value(deployment_pb2.Deployment.DESCRIPTOR.fields_by_name["retention_days"]),
            revision=1,
            cursor_secret=secrets.token_hex(32),
        )
        row = tx.one(_SELECT)
    return row


def get(tx: Tx) -> Any:
    """The deployment's row."""
    return tx.one(_SELECT)


def change(tx: Tx, changes: dict[str, object]) -> Any:
    """Writes the given columns and returns the row as it is then."""
    row = tx.one(_SELECT)
    tx.enqueue(_UPDATE, **{f"new_{name}": changes.get(name, getattr(row, name)) for name in _CHANGEABLE})
    return tx.one(_SELECT)


def touch(tx: Tx) -> None:
    """Raises the revision, so that every edge hears of a change of a key."""
    tx.enqueue(_TOUCH)


def note_first_key(tx: Tx) -> None:
    """Keeps that a key was made once, whatever becomes of it."""
    tx.enqueue(_FIRST_KEY)

"""The audit trail: who changed what, and when; kept for 400 days. (DECISIONS.md, 8)."""

import json
from collections.abc import Mapping

from sqlalchemy import insert

from backend.deployment.tables import audit_records
from backend.ids import new_id
from backend.storage.database import Tx
from backend.storage.statements import sql

_INSERT = sql(insert(audit_records), [column.name for column in audit_records.columns])


def record(
    tx: Tx, *, at: int, actor: str, action: str, target: str, details: Mapping[str, object] | None = None
) -> None:
    """Writes one audit record with the change that it is about, in the same transaction.

    `action` is a noun and a past participle, as `key.rotated`; `details` never hold a secret or content of a run.
    """
    tx.run(
        _INSERT,
        audit_id=new_id("aud"),
        at=at,
        actor=actor,
        action=action,
        target=target,
        details=json.dumps(details or {}, separators=(",", ":"), sort_keys=True),
    )

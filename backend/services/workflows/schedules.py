"""Synchronises the table of schedules with workflows' active versions, in the transaction of each change."""

import json
from typing import Final

from backend.common.ids import new_id
from backend.common.json_text import JsonMapping, canonical
from backend.services.workflows import schedules_sql, sql, versions_sql
from backend.services.workflows.cron import next_due
from backend.services.workflows.schedule_outcomes import SkipReason, skip_queued
from backend.storage.database import Tx
from backend.storage.tables.schedules import ScheduleRow

_FIELD: Final = '"schedules":'


def sync_schedules(tx: Tx, workflow_id: str, now: int) -> None:
    """Adds, changes and removes schedules so that they equal those of the workflow's active version.

    A schedule that is new or has another time is next due after `now`. A pause by a person lasts until the manifest's
    `paused` changes or the schedule is removed. A queued due time of a paused or removed schedule is skipped.
    """
    wanted = _defined(tx, workflow_id)
    if not wanted and not schedules_sql.any_defined(tx, workflow_id):
        return
    present = {row.name: row for row in schedules_sql.defined(tx, workflow_id)}
    for name, row in present.items():
        if name not in wanted:
            skip_queued(tx, row, SkipReason.REMOVED, now)
            schedules_sql.remove(tx, row.schedule_id)
    for name, definition in wanted.items():
        before = present.get(name)
        if before is None:
            schedules_sql.add(tx, _new(workflow_id, name, definition, now))
        elif before.definition != canonical(definition):
            schedules_sql.change(tx, _changed(tx, before, definition, now))


def remove_schedules(tx: Tx, workflow_id: str, now: int) -> None:
    """Removes the schedules and planned starts of a deleted workflow, and skips queued due times."""
    for row in schedules_sql.defined(tx, workflow_id):
        skip_queued(tx, row, SkipReason.REMOVED, now)
    schedules_sql.remove_all(tx, workflow_id)


def following(definition: JsonMapping, after: int) -> int | None:
    """Returns the next due time of a schedule's definition after a time, even if paused; None if there is none."""
    return next_due(definition["cron"], definition["timezone"], after)


def _defined(tx: Tx, workflow_id: str) -> dict[str, JsonMapping]:
    row = sql.get(tx, workflow_id)
    if row is None or row.active_version is None:
        return {}
    text = versions_sql.definition_text(tx, workflow_id, row.active_version) or ""
    # Most definitions, which may have 8 MiB, have no schedule, and are not parsed.
    found = json.loads(text).get("schedules", ()) if _FIELD in text else ()
    return {one["name"]: one for one in found}


def _new(workflow_id: str, name: str, definition: JsonMapping, now: int) -> ScheduleRow:
    return ScheduleRow(
        schedule_id=new_id("sch"),
        workflow_id=workflow_id,
        name=name,
        definition=canonical(definition),
        created_at=now,
        paused=int(definition["paused"]),
        next_at=None if definition["paused"] else following(definition, now),
    )


def _changed(tx: Tx, row: ScheduleRow, definition: JsonMapping, now: int) -> ScheduleRow:
    before = json.loads(row.definition)
    paused = row.paused if before["paused"] == definition["paused"] else int(definition["paused"])
    moved = any(before[name] != definition[name] for name in ("cron", "timezone"))
    row = row._replace(definition=canonical(definition), paused=paused)
    if paused:
        return skip_queued(tx, row, SkipReason.PAUSED, now)._replace(next_at=None)
    if moved or row.next_at is None:
        return row._replace(next_at=following(definition, now))
    return row

"""Applies manifests, all or none, with new versions only of changed ones (contract 24.3, 24.4)."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from backend.resources.environments import sql as environments
from backend.resources.environments.lock import lock_digest
from backend.services.audit import sql as audit
from backend.services.workflows import definitions_sql, resources_sql, sql, versions_sql
from backend.services.workflows.definitions import archive_of
from backend.services.workflows.manifests.loader import Manifest, refused
from backend.services.workflows.manifests.names import MANIFEST_KINDS, MOST_OF_A_KIND, RESOURCE_KINDS
from backend.services.workflows.schedules import sync_schedules
from backend.services.workflows.uses import CurrentPins, changed_pins, pinned_names
from backend.services.workflows.versions_sql import Pins
from backend.storage.database import Tx
from backend.storage.tables.workflows import WorkflowRow


class ApplyResult(NamedTuple):
    """Outcome of one manifest or workflow; `outcome` is `created`, `updated` or `unchanged`.

    `changed_resources` are the agents and environments, each as `Agent counter`, whose change caused the new version.
    `previous_version` and, of a workflow, `previous_status` are None where none of the name existed.
    """

    kind: str
    name: str
    id: str
    version: int
    outcome: str
    changed_resources: tuple[str, ...] = ()
    previous_version: int | None = None
    previous_status: str | None = None


def apply_manifests(tx: Tx, manifests: Iterable[Manifest], *, now: int, actor: str) -> list[ApplyResult]:
    """Writes the changes of the manifests, with an audit record for each.

    Returns the outcome of each document, then of each other workflow that has a new version because of them.

    Raises:
        ApiError: `invalid_request`, if there would be more than 256 of a kind.
    """
    manifests = list(manifests)
    resources = {
        number: _resource(tx, manifest, now) for number, manifest in enumerate(manifests) if manifest.kind != "Workflow"
    }
    # Read after the resources are written, for a workflow may stand before the agents that it names.
    present = CurrentPins(tx)
    applied = [
        resources.get(number) or _workflow(tx, manifest, present, now) for number, manifest in enumerate(manifests)
    ]
    _refuse_too_many(tx, manifests, applied)
    applied += _workflows_that_use(tx, applied, present, now)
    for one in applied:
        if one.outcome != "unchanged":
            details = {"name": one.name, "version": one.version, "outcome": one.outcome}
            if one.changed_resources:
                details["changed_resources"] = one.changed_resources
            action = f"{RESOURCE_KINDS.get(one.kind, 'workflow')}.applied"
            audit.record(tx, at=now, actor=actor, action=action, target=one.id, details=details)
            if one.kind == "Workflow":
                sync_schedules(tx, one.id, now)
    return applied


def _workflow(tx: Tx, manifest: Manifest, present: CurrentPins, now: int) -> ApplyResult:
    content = json.loads(manifest.definition)
    names = pinned_names(content)
    row = sql.get_by_name(tx, manifest.name)
    if row is None:
        workflow_id = sql.add_workflow(
            tx,
            name=manifest.name,
            description=content["description"],
            status=manifest.status or "draft",
            now=now,
        )
        pins = present.with_tools(present.pins_for(names, {}), {})
        versions_sql.add_version(tx, workflow_id, 1, definition=manifest.definition, pins=pins.values(), now=now)
        return ApplyResult("Workflow", manifest.name, workflow_id, 1, "created")
    before = versions_sql.pins_of(tx, row.workflow_id, row.newest_version)
    pins = present.with_tools(present.pins_for(names, before), before)
    redefined = versions_sql.definition_text(tx, row.workflow_id, row.newest_version) != manifest.definition
    # A document without a status keeps the one that an administrator has set.
    status = manifest.status or row.status
    if redefined or pins != before:
        if not redefined:
            return add_next_version(tx, row, before, pins, now, status=status)
        description = content["description"]
        return add_next_version(
            tx, row, before, pins, now, status=status, description=description, definition=manifest.definition
        )
    outcome = "unchanged" if status == row.status else "updated"
    if status != row.status:
        sql.change_workflow(tx, row, now, status=status)
    return ApplyResult(
        "Workflow",
        manifest.name,
        row.workflow_id,
        row.newest_version,
        outcome,
        previous_version=row.newest_version,
        previous_status=row.status,
    )


def _workflows_that_use(tx: Tx, applied: list[ApplyResult], present: CurrentPins, now: int) -> Iterator[ApplyResult]:
    """Adds a version to each other workflow whose agents or environments have changed.

    The others that it is pinned to stay as they are: it may have gone back to a former version of them.
    """
    changed = {(RESOURCE_KINDS.get(one.kind, ""), one.name) for one in applied if one.outcome != "unchanged"}
    pins_before = versions_sql.newest_pins(tx)
    for row in sql.all_workflows(tx):
        before = pins_before.get(row.workflow_id, {})
        pins = before | present.pins_for(changed & before.keys(), before)
        if pins != before:
            pins = _with_other_tools(tx, row, before, pins, present)
            yield add_next_version(tx, row, before, pins, now, status=row.status)


def _with_other_tools(tx: Tx, row: WorkflowRow, before: Pins, pins: Pins, present: CurrentPins) -> Pins:
    """Returns the pins of a next version, with the tools that its agents have now, and without those that they had."""
    if not present.has_tools(before) and not present.has_tools(pins):
        return pins
    definition = versions_sql.definition_text(tx, row.workflow_id, row.newest_version)
    named = {name: pins[name] for name in pinned_names(json.loads(definition or "null"))}
    added = present.with_tools(named, before)
    return {name: pins.get(name, pin) for name, pin in added.items()}


def add_next_version(
    tx: Tx,
    row: WorkflowRow,
    before: Pins,
    pins: Pins,
    now: int,
    *,
    status: str,
    description: str | None = None,
    definition: str | None = None,
    shared_with: int | None = None,
) -> ApplyResult:
    """Writes a workflow's next version; without a definition it shares that of `shared_with`, or of the one before.

    `description` is that of the definition; None leaves it.
    """
    version = row.newest_version + 1
    versions_sql.add_version(
        tx, row.workflow_id, version, definition=definition, pins=pins.values(), now=now, shared_with=shared_with
    )
    sql.change_workflow(tx, row, now, status=status, newest_version=version, description=description)
    return next_version(row, before, pins)


def next_version(row: WorkflowRow, before: Pins, pins: Pins) -> ApplyResult:
    """Returns the outcome for a workflow of which `add_next_version` writes a version."""
    changed = tuple(f"{MANIFEST_KINDS[kind]} {name}" for kind, name in changed_pins(before, pins))
    version = row.newest_version + 1
    return ApplyResult(
        "Workflow", row.name, row.workflow_id, version, "updated", changed, row.newest_version, row.status
    )


def _resource(tx: Tx, manifest: Manifest, now: int) -> ApplyResult:
    applied = _resource_row(tx, manifest, now)
    if manifest.kind == "Environment" and applied.outcome != "unchanged":
        if manifest.lock is not None:
            environments.add_lock(tx, manifest.lock, now)
        environments.set_packages(tx, applied.id, lock_digest(json.loads(manifest.definition)))
    return applied


def _resource_row(tx: Tx, manifest: Manifest, now: int) -> ApplyResult:
    kind = RESOURCE_KINDS[manifest.kind]
    row = resources_sql.resource(tx, kind, manifest.name)
    if row is not None and row.definition == manifest.definition:
        same = row.version
        return ApplyResult(manifest.kind, manifest.name, row.resource_id, same, "unchanged", previous_version=same)
    digest = _store_code(tx, manifest, now)
    if row is None:
        made = resources_sql.add_resource(
            tx, kind=kind, name=manifest.name, definition=manifest.definition, now=now, source_digest=digest
        )
        return ApplyResult(manifest.kind, manifest.name, made, 1, "created")
    resources_sql.change_resource(tx, row, manifest.definition, now, source_digest=digest)
    return ApplyResult(
        manifest.kind, manifest.name, row.resource_id, row.version + 1, "updated", previous_version=row.version
    )


def _store_code(tx: Tx, manifest: Manifest, now: int) -> str | None:
    """Stores the folder of an agent unless it is there; returns its digest, None for an agent without one."""
    if manifest.code is None:
        return None
    digest = manifest.code.digest
    if not definitions_sql.is_stored(tx, digest, now):
        definitions_sql.store(tx, digest, archive_of(manifest.code.files), now)
    return digest


def _refuse_too_many(tx: Tx, manifests: list[Manifest], applied: list[ApplyResult]) -> None:
    counts: Counter[str] = Counter(resources_sql.resource_counts(tx))
    counts["workflow"] = len(sql.all_workflows(tx))
    problems = [
        (f"{manifest.file}:{manifest.line}: kind", f"must not become more than {MOST_OF_A_KIND} of {manifest.kind}")
        for manifest, one in zip(manifests, applied, strict=True)
        if one.outcome == "created" and counts[RESOURCE_KINDS.get(manifest.kind, "workflow")] > MOST_OF_A_KIND
    ]
    if problems:
        raise refused(problems)

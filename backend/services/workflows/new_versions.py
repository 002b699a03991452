"""Writes applied manifests in one transaction, with new versions only for changed ones (contract 24.3, 24.4)."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from backend.common.json_text import canonical
from backend.resources.environments import sql as environments
from backend.resources.environments.lock import lock_digest
from backend.services.audit import sql as audit
from backend.services.workflows import definitions_sql, resources_sql, sql, versions_sql
from backend.services.workflows.definitions import archive_of
from backend.services.workflows.manifests.loader import Manifest, refused
from backend.services.workflows.manifests.names import MANIFEST_KINDS, MOST_OF_A_KIND, RESOURCE_KINDS
from backend.services.workflows.schedules import sync_schedules
from backend.services.workflows.sets import Ownership, record_owner
from backend.services.workflows.uses import CurrentPins, changed_pins, pinned_names
from backend.services.workflows.versions_sql import Pins
from backend.storage.database import Tx
from backend.storage.tables.workflows import WorkflowRow

_NO_SETS: Final = Ownership()


class ApplyResult(NamedTuple):
    """Outcome of one manifest or workflow; `outcome` is `created`, `updated` or `unchanged`.

    `changed_resources` are the agents and environments, each as `Agent counter`, whose change caused the new version.
    `previous_version` and, of a workflow, `previous_status` are None where none of the name existed. `set_name` and
    `previous_set` are the sets that own it and owned it before, None for no set. The outcome of a pruned one is
    `deleted`.
    """

    kind: str
    name: str
    id: str
    version: int
    outcome: str
    changed_resources: tuple[str, ...] = ()
    previous_version: int | None = None
    previous_status: str | None = None
    set_name: str | None = None
    previous_set: str | None = None

    @property
    def taken_over(self) -> bool:
        """Returns whether a set lost a definition that stays."""
        return self.outcome != "deleted" and self.previous_set not in {None, self.set_name}


def apply_manifests(
    tx: Tx, manifests: Iterable[Manifest], *, now: int, actor: str, owned: Ownership = _NO_SETS
) -> list[ApplyResult]:
    """Writes the changes of the manifests and their owner, with an audit record for each.

    Workflows to be pruned get no new version, and what is to be pruned does not count.

    Returns the outcome of each document, then of each further workflow that got a new version because of them.

    Raises:
        ApiError: `invalid_request`, if there would be more than 256 of a kind.
    """
    manifests = list(manifests)
    resources = {
        number: _resource(tx, manifest, now) for number, manifest in enumerate(manifests) if manifest.kind != "Workflow"
    }
    # Read after all resources are written, because a workflow may precede its agents in the files.
    present = CurrentPins(tx)
    applied = [
        _with_owner(tx, resources.get(number) or _workflow(tx, manifest, present, now), owned)
        for number, manifest in enumerate(manifests)
    ]
    _refuse_too_many(tx, manifests, applied, owned)
    applied += _workflows_that_use(tx, applied, present, now, owned)
    for one in applied:
        _record(tx, one, now, actor)
        if one.outcome != "unchanged" and one.kind == "Workflow":
            sync_schedules(tx, one.id, now)
    return applied


def _with_owner(tx: Tx, one: ApplyResult, owned: Ownership) -> ApplyResult:
    before = owned.owners.get((one.kind, one.name))
    record_owner(tx, one.kind, one.id, before, owned.set_name)
    return one._replace(set_name=owned.set_name, previous_set=before)


def _record(tx: Tx, one: ApplyResult, now: int, actor: str) -> None:
    """Writes the audit record of an outcome; an unchanged definition has one only if its owner changes."""
    changes_owner = one.set_name != one.previous_set
    if one.outcome == "unchanged" and not changes_owner:
        return
    details: dict[str, object] = {"name": one.name, "version": one.version, "outcome": one.outcome}
    if one.changed_resources:
        details["changed_resources"] = one.changed_resources
    if one.set_name is not None or changes_owner:
        details["set"] = one.set_name
    if changes_owner and one.previous_version is not None:
        details["previous_set"] = one.previous_set
    change = "set_changed" if one.outcome == "unchanged" else "applied"
    action = f"{RESOURCE_KINDS.get(one.kind, 'workflow')}.{change}"
    audit.record(tx, at=now, actor=actor, action=action, target=one.id, details=details)


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
        versions_sql.add_version(
            tx,
            workflow_id,
            1,
            definition=manifest.definition,
            pins=pins.values(),
            now=now,
            variables=_variables(manifest),
        )
        return ApplyResult("Workflow", manifest.name, workflow_id, 1, "created")
    before = versions_sql.pins_of(tx, row.workflow_id, row.newest_version)
    pins = present.with_tools(present.pins_for(names, before), before)
    redefined = versions_sql.definition_text(tx, row.workflow_id, row.newest_version) != manifest.definition
    # A document without a status keeps the present status.
    status = manifest.status or row.status
    if redefined or pins != before:
        if not redefined:
            return add_next_version(tx, row, before, pins, now, status=status)
        description = content["description"]
        return add_next_version(
            tx,
            row,
            before,
            pins,
            now,
            status=status,
            description=description,
            definition=manifest.definition,
            variables=_variables(manifest),
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


def _workflows_that_use(
    tx: Tx, applied: list[ApplyResult], present: CurrentPins, now: int, owned: Ownership
) -> Iterator[ApplyResult]:
    """Adds a version to each other workflow whose agents or environments have changed.

    Pins of unchanged resources stay, because a restore may have pinned a former version.
    """
    changed = {(RESOURCE_KINDS.get(one.kind, ""), one.name) for one in applied if one.outcome != "unchanged"}
    pins_before = versions_sql.newest_pins(tx)
    pruned = owned.pruned_ids
    for row in sql.all_workflows(tx):
        if row.workflow_id in pruned:
            continue
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
    variables: str | None = None,
) -> ApplyResult:
    """Writes a workflow's next version; without `definition` it shares the one of `shared_with` or of the last version.

    `description` is from the definition; None leaves it unchanged. `variables` are the values of its variables as JSON.
    """
    version = row.newest_version + 1
    versions_sql.add_version(
        tx,
        row.workflow_id,
        version,
        definition=definition,
        pins=pins.values(),
        now=now,
        shared_with=shared_with,
        variables=variables,
    )
    sql.change_workflow(tx, row, now, status=status, newest_version=version, description=description)
    return next_version(row, before, pins)


def next_version(row: WorkflowRow, before: Pins, pins: Pins) -> ApplyResult:
    """Returns the outcome of `add_next_version` for a workflow."""
    changed = tuple(f"{MANIFEST_KINDS[kind]} {name}" for kind, name in changed_pins(before, pins))
    version = row.newest_version + 1
    return ApplyResult(
        "Workflow",
        row.name,
        row.workflow_id,
        version,
        "updated",
        changed,
        row.newest_version,
        row.status,
        row.owner_set,
        row.owner_set,
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
    variables = _variables(manifest)
    if row is None:
        made = resources_sql.add_resource(
            tx,
            kind=kind,
            name=manifest.name,
            definition=manifest.definition,
            now=now,
            source_digest=digest,
            variables=variables,
        )
        return ApplyResult(manifest.kind, manifest.name, made, 1, "created")
    resources_sql.change_resource(tx, row, manifest.definition, now, source_digest=digest, variables=variables)
    return ApplyResult(
        manifest.kind, manifest.name, row.resource_id, row.version + 1, "updated", previous_version=row.version
    )


def _variables(manifest: Manifest) -> str | None:
    """Returns the values of a document's variables as JSON; None where it uses none."""
    values = {name: value.text for name, value in sorted(manifest.variables.items())}
    return canonical(values) if values else None


def _store_code(tx: Tx, manifest: Manifest, now: int) -> str | None:
    """Stores the code folder of an agent unless it is stored; returns its digest, or None without a folder."""
    if manifest.code is None:
        return None
    digest = manifest.code.digest
    if not definitions_sql.touch_stored(tx, digest, now):
        definitions_sql.store(tx, digest, archive_of(manifest.code.files), now)
    return digest


def _refuse_too_many(tx: Tx, manifests: list[Manifest], applied: list[ApplyResult], owned: Ownership) -> None:
    counts: Counter[str] = Counter(resources_sql.resource_counts(tx))
    counts["workflow"] = len(sql.all_workflows(tx))
    counts.subtract(owned.pruned_of_kind)
    problems = [
        (f"{manifest.file}:{manifest.line}: kind", f"must not become more than {MOST_OF_A_KIND} of {manifest.kind}")
        for manifest, one in zip(manifests, applied, strict=True)
        if one.outcome == "created" and counts[RESOURCE_KINDS.get(manifest.kind, "workflow")] > MOST_OF_A_KIND
    ]
    if problems:
        raise refused(problems)

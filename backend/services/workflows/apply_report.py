"""Reports of an apply: why workflows are not ready, and how definitions changed (contract 24.14, 24.15)."""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from backend.common.deployment_terms import Capabilities
from backend.common.json_text import JsonObject
from backend.common.optional_parts import GRAPHS
from backend.common.secrets import how_to_set
from backend.services.workflows import resources_sql, sql, versions_sql
from backend.services.workflows.child_readiness import ChildReadiness
from backend.services.workflows.manifests.names import MANIFEST_KINDS, RESOURCE_KINDS
from backend.services.workflows.new_versions import ApplyResult
from backend.services.workflows.rules import readiness, secrets_of
from backend.services.workflows.uses import resources_of_version
from backend.services.workflows.versions_sql import Pin
from backend.storage.database import Tx
from redaction.policy import LOCAL

Definition = JsonObject


class Report(NamedTuple):
    """Outcome of one manifest or workflow; see the fields of `AppliedResource`.

    `before` and `after` are the old and new definition, if a comparison was requested and they may differ.
    `workflow` is the definition of a workflow, if definitions were requested.
    """

    applied: ApplyResult
    not_ready: list[str]
    warnings: list[str]
    before: Definition | None = None
    after: Definition | None = None
    workflow: Definition | None = None


def reports(tx: Tx, applied: Iterable[ApplyResult], capabilities: Capabilities, *, definitions: bool) -> list[Report]:
    """Returns a report of each outcome, in the transaction that made it.

    `definitions` adds `before` and `after`, which one that was taken over from a set has anyway.
    """
    return [
        _of_workflow(tx, one, capabilities, definitions=definitions or one.taken_over)
        if one.kind == "Workflow"
        else _of_resource(tx, one, capabilities, definitions=definitions or one.taken_over)
        for one in applied
    ]


def restored_reports(tx: Tx, one: ApplyResult, capabilities: Capabilities, *, restored: int) -> list[Report]:
    """Returns reports of restoring version `restored` of a workflow, also before the new version is written.

    The first report is about the workflow, further ones about agents and environments whose pinned version changes.
    """
    return [
        _of_workflow(tx, one, capabilities, definitions=True, restored=restored),
        *_pinned_reports(tx, one, restored),
    ]


def _pinned_reports(tx: Tx, one: ApplyResult, restored: int) -> Iterator[Report]:
    before, after = (
        {} if version is None else versions_sql.pins_of(tx, one.id, version)
        for version in (one.previous_version, restored)
    )
    for key in sorted(before.keys() & after.keys()):
        old, new = before[key], after[key]
        if old == new or old.version is None or new.version is None:
            continue
        both = (json.loads(versions_sql.resource_definition(tx, pin)) for pin in (old, new))
        applied = ApplyResult(
            MANIFEST_KINDS[new.kind],
            new.name,
            new.resource_id or "",
            new.version,
            "pinned",
            previous_version=old.version,
        )
        yield Report(applied, [], [], *both)


def _of_workflow(
    tx: Tx, one: ApplyResult, capabilities: Capabilities, *, definitions: bool, restored: int | None = None
) -> Report:
    row = sql.get(tx, one.id)
    assert row is not None, "it was found in this transaction"
    version, status = (one.version, row.status) if restored is None else (restored, "active")
    definition = _definition(tx, one.id, version)
    found = resources_of_version(tx, one.id, version, definition)
    of_children = ChildReadiness(tx, capabilities).reasons(one.id, version, definition)
    not_ready = readiness(definition, found, status, capabilities, of_children)
    warnings = [
        f"Knowledge graph '{entry['knowledge_graph']}' does not exist: nothing is published to it."
        for entry in definition["publish"]
        if ("knowledge_graph", entry["knowledge_graph"]) not in found
    ]
    if definition["publish"] and not GRAPHS.installed:
        warnings.append(f"Nothing is published to knowledge graphs: {GRAPHS.not_installed}.")
    if not definitions:
        return Report(one, not_ready, warnings)
    if one.previous_version is None or one.outcome != "updated":
        return Report(one, not_ready, warnings, workflow=definition)
    before = _described(tx, one.id, one.previous_version, one.previous_status)
    return Report(one, not_ready, warnings, before, _described(tx, one.id, version, status), definition)


def _of_resource(tx: Tx, one: ApplyResult, capabilities: Capabilities, *, definitions: bool) -> Report:
    kind = RESOURCE_KINDS[one.kind]
    after = _resource(tx, one, one.version)
    warnings = list(_secret_warnings(after, capabilities))
    if kind == "connector":
        warnings += _test_warnings(tx, one)
    if kind == "knowledge_graph" and not GRAPHS.installed:
        warnings.append(f"Nothing is published to it: {GRAPHS.not_installed}.")
    if not definitions or one.previous_version is None or one.outcome != "updated":
        return Report(one, [], warnings)
    return Report(one, [], warnings, _resource(tx, one, one.previous_version), after)


def _test_warnings(tx: Tx, one: ApplyResult) -> Iterator[str]:
    row = resources_sql.resource(tx, "connector", one.name)
    if row is not None and not row.newest_passed:
        state = "has failed" if row.newest_passed is not None else "is missing"
        yield f"The connection test of this version {state}: run `workflow-api connectors test '{one.name}'`."


def _secret_warnings(definition: Definition, capabilities: Capabilities) -> Iterator[str]:
    secret = definition.get("secret") or definition.get("api_key")
    for name in (*([] if secret is None else [secret]), *secrets_of(definition)):
        if name not in capabilities.secrets:
            yield f"This deployment has no secret named '{name}': {how_to_set(name)}."
    model = definition.get("model")
    if model is not None and secret is None and definition.get("base_url") is None:
        provider = model.partition(":")[0]
        if provider not in capabilities.providers - {LOCAL}:
            yield f"This deployment names no api_key for models of '{provider}', and the agent names none."


def _described(tx: Tx, workflow_id: str, version: int, status: str | None) -> Definition:
    uses = {
        f"{MANIFEST_KINDS[pin.kind]} {pin.name}": "none" if pin.version is None else f"version {pin.version}"
        for pin in versions_sql.pins_of(tx, workflow_id, version).values()
    }
    return {**_definition(tx, workflow_id, version), "status": status, "uses": uses}


def _definition(tx: Tx, workflow_id: str, version: int) -> Definition:
    text = versions_sql.definition_text(tx, workflow_id, version)
    assert text is not None, "every version of a workflow has a definition"
    found: Definition = json.loads(text)
    return found


def _resource(tx: Tx, one: ApplyResult, version: int) -> Definition:
    pin = Pin(RESOURCE_KINDS[one.kind], one.name, one.id, version)
    found: Definition = json.loads(versions_sql.resource_definition(tx, pin))
    return found

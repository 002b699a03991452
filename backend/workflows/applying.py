"""Applies manifests: all of them or nothing, with a new version only where something changed (DECISIONS.md, 9)."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from backend.audit import store as audit
from backend.storage.database import Tx
from backend.workflows import store
from backend.workflows.manifests.kinds import MOST_OF_A_KIND
from backend.workflows.manifests.loader import Manifest, refused

_RESOURCE_KINDS: Final = {
    "Environment": "environment",
    "Connector": "connector",
    "Agent": "agent",
    "KnowledgeGraph": "knowledge_graph",
}


class Applied(NamedTuple):
    """What became of one document; `outcome` is `created`, `updated` or `unchanged`."""

    kind: str
    name: str
    id: str
    version: int
    outcome: str


def apply_manifests(tx: Tx, manifests: Iterable[Manifest], *, now: int, actor: str) -> list[Applied]:
    """Writes what the manifests change, with an audit record for each change.

    Raises:
        ApiError: `invalid_request`, when there would be more than 256 of a kind.
    """
    manifests = list(manifests)
    applied = [
        _workflow(tx, manifest, now) if manifest.kind == "Workflow" else _resource(tx, manifest, now)
        for manifest in manifests
    ]
    _refuse_too_many(tx, manifests, applied)
    for one in applied:
        if one.outcome != "unchanged":
            audit.record(
                tx,
                at=now,
                actor=actor,
                action=f"{_RESOURCE_KINDS.get(one.kind, 'workflow')}.applied",
                target=one.id,
                details={"name": one.name, "version": one.version, "outcome": one.outcome},
            )
    return applied


def _workflow(tx: Tx, manifest: Manifest, now: int) -> Applied:
    row = store.get_by_name(tx, manifest.name)
    if row is None:
        workflow_id = store.add_workflow(
            tx,
            name=manifest.name,
            description=json.loads(manifest.definition)["description"],
            status=manifest.status or "draft",
            definition=manifest.definition,
            now=now,
        )
        return Applied("Workflow", manifest.name, workflow_id, 1, "created")
    changed = store.definition_text(tx, row.workflow_id, row.newest_version) != manifest.definition
    # A document that says nothing of the status leaves it as an administrator has set it.
    status = manifest.status or row.status
    if changed or status != row.status:
        store.change_workflow(tx, row, now, status=status, definition=manifest.definition if changed else None)
    outcome = "updated" if changed or status != row.status else "unchanged"
    return Applied("Workflow", manifest.name, row.workflow_id, row.newest_version + changed, outcome)


def _resource(tx: Tx, manifest: Manifest, now: int) -> Applied:
    kind = _RESOURCE_KINDS[manifest.kind]
    row = store.resource(tx, kind, manifest.name)
    if row is None:
        made = store.add_resource(tx, kind=kind, name=manifest.name, definition=manifest.definition, now=now)
        return Applied(manifest.kind, manifest.name, made, 1, "created")
    if row.definition == manifest.definition:
        return Applied(manifest.kind, manifest.name, row.resource_id, row.version, "unchanged")
    store.change_resource(tx, row, manifest.definition, now)
    return Applied(manifest.kind, manifest.name, row.resource_id, row.version + 1, "updated")


def _refuse_too_many(tx: Tx, manifests: list[Manifest], applied: list[Applied]) -> None:
    counts: Counter[str] = Counter(store.resource_counts(tx))
    counts["workflow"] = len(store.all_workflows(tx))
    problems = [
        (f"{manifest.file}:{manifest.line}: kind", f"must not become more than {MOST_OF_A_KIND} of {manifest.kind}")
        for manifest, one in zip(manifests, applied, strict=True)
        if one.outcome == "created" and counts[_RESOURCE_KINDS.get(manifest.kind, "workflow")] > MOST_OF_A_KIND
    ]
    if problems:
        raise refused(problems)

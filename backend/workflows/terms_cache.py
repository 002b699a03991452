"""The terms of a workflow version, resolved once for each state of the resources."""

import json
from collections.abc import Set as AbstractSet

from backend.revisioned_cache import RevisionedCache
from backend.storage.database import Tx
from backend.workflows import sql
from backend.workflows.pins import resources_of_version
from backend.workflows.terms import WorkflowTerms, resolve
from backend.workflows.versions_sql import definition_text


def load_terms(
    cache: RevisionedCache,
    tx: Tx,
    providers: AbstractSet[str],
    workflow_id: str,
    version: int | None = None,
    *,
    revision: int | None = None,
) -> WorkflowTerms | None:
    """Everything that a start, or the runtime, needs of a workflow version; None when there is no such workflow.

    `version` None means the active one. `tx` is a change or a snapshot, for the parts must agree. `providers` are those
    whose models this deployment can call. It costs one small statement while nothing changes, and none where `tx` has
    read the revision. `WorkflowTerms.refusal()` says why the version cannot be started.
    """
    if revision is None:
        revision = sql.revision(tx)
    terms: WorkflowTerms | None = cache.get((workflow_id, version), revision)
    if terms is not None:
        return terms
    row = sql.get(tx, workflow_id)
    if row is None:
        return None
    wanted = row.active_version or row.newest_version if version is None else version
    text = definition_text(tx, workflow_id, wanted)
    if text is None:
        return WorkflowTerms(workflow_id, row.name, row.status, None)
    definition = json.loads(text)
    found = resources_of_version(tx, workflow_id, wanted, definition)
    terms = resolve(workflow_id, row.name, row.status, wanted, definition, found, providers)
    size = len(text) + sum(resource.size for resource in found.values())
    cache.put((workflow_id, version), revision, terms, size)
    return terms


def cached_terms(
    cache: RevisionedCache, workflow_id: str, version: int | None, revision: int | None = None
) -> WorkflowTerms | None:
    """What `load_terms` gives at this revision, or unless something was changed; None where it is not known."""
    name = (workflow_id, version)
    terms: WorkflowTerms | None = cache.newest(name) if revision is None else cache.get(name, revision)
    return terms

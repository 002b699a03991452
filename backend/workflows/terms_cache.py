"""Cache of resolved workflow versions, invalidated by the revision of workflows and resources."""

import json

from backend.capabilities import Capabilities
from backend.revisioned_cache import RevisionedCache
from backend.storage.database import Tx
from backend.storage.tables.workflows import WorkflowRow
from backend.workflows import revision_sql, sql
from backend.workflows.pins import resources_of_version
from backend.workflows.terms import WorkflowTerms, resolve
from backend.workflows.versions_sql import definition_text


def load_terms(
    cache: RevisionedCache,
    tx: Tx,
    capabilities: Capabilities,
    workflow_id: str,
    version: int | None = None,
    *,
    revision: int | None = None,
) -> WorkflowTerms | None:
    """Returns a workflow version with its resources resolved; None if there is no such workflow.

    `version` None means the active one. `tx` is a change or a snapshot, so that all reads see the same state.
    `capabilities` are those of this deployment. Cached terms cost one statement, which reads the
    revision, or none if that is given. `WorkflowTerms.refusal()` says why the version cannot be started.
    """
    if revision is None:
        revision = revision_sql.revision(tx)
    terms: WorkflowTerms | None = cache.get((workflow_id, version), revision)
    if terms is not None:
        return terms
    row = sql.get(tx, workflow_id)
    if row is None:
        return None
    terms, size = _resolved(tx, row, capabilities, version)
    if terms.version is not None:
        cache.put((workflow_id, version), revision, terms, size)
    return terms


def deleted_terms(tx: Tx, row: WorkflowRow, capabilities: Capabilities) -> WorkflowTerms:
    """Returns the terms of a deleted workflow, which are not cached: starts take what is in the cache."""
    terms, _ = _resolved(tx, row._replace(status="deleted"), capabilities, None)
    return terms


def _resolved(tx: Tx, row: WorkflowRow, capabilities: Capabilities, version: int | None) -> tuple[WorkflowTerms, int]:
    """Returns the terms of a version, by default the active one, and the characters that they were read from."""
    wanted = row.active_version or row.newest_version if version is None else version
    text = definition_text(tx, row.workflow_id, wanted)
    if text is None:
        return WorkflowTerms(row.workflow_id, row.name, row.status, None), 0
    definition = json.loads(text)
    found = resources_of_version(tx, row.workflow_id, wanted, definition)
    terms = resolve(row.workflow_id, row.name, row.status, wanted, definition, found, capabilities)
    return terms, len(text) + sum(resource.size for resource in found.values())


def cached_terms(
    cache: RevisionedCache, workflow_id: str, version: int | None, revision: int | None = None
) -> WorkflowTerms | None:
    """Returns cached terms of this revision, or of the newest one known if none is given; None if there are none."""
    name = (workflow_id, version)
    terms: WorkflowTerms | None = cache.newest(name) if revision is None else cache.get(name, revision)
    return terms

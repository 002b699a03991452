"""Deletes definitions that nothing uses; versions that runs and other versions name stay readable by their id."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from backend.audit import sql as audit
from backend.environments import sql as environments
from backend.errors import ApiError
from backend.json_text import canonical
from backend.storage.database import Tx
from backend.workflows import definitions, definitions_sql, deletion_sql, uses, versions_sql
from backend.workflows.definitions import WORKFLOW, Definition
from backend.workflows.manifests.kind_names import MOST_OF_A_KIND, RESOURCE_KINDS
from backend.workflows.pins import PINNED_KINDS
from backend.workflows.readiness import ResourceKey, referred_resources
from workflow_api.v1 import errors_pb2

_MOST_NAMED: Final = 20
"""Of each kind of what uses a definition; the rest is counted."""


def delete_definition(tx: Tx, kind: str, id_or_name: str, *, now: int, actor: str) -> Definition:
    """Deletes a definition, and returns what it was.

    The transaction must run beside no other change: a start or an apply is before it and counts, or finds nothing.

    Raises:
        ApiError: `invalid_request` for an unknown kind, or with the names of what uses it; `not_found`.
    """
    found = definitions.find(tx, kind, id_or_name)
    used_by = list(_users_of_workflow(tx, found) if kind == WORKFLOW else _users_of_resource(tx, found))
    stored = RESOURCE_KINDS.get(kind, "workflow")
    if used_by:
        noun = stored.replace("_", " ")
        message = f"The {noun} {found.name} cannot be deleted, because it is used by {', '.join(used_by)}."
        reasons = [("definition", f"must not be in use; {user} uses it") for user in used_by]
        raise ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, message, problems=reasons)
    if kind == WORKFLOW:
        deletion_sql.delete_workflow(tx, found.id, found.name, now)
    else:
        deletion_sql.delete_resource(tx, stored, found.id, found.name, now)
    if kind == "Environment":
        environments.set_packages(tx, found.id, None)
    details = {"name": found.name, "version": found.newest_version}
    audit.record(tx, at=now, actor=actor, action=f"{stored}.deleted", target=found.id, details=details)
    return found


def _users_of_workflow(tx: Tx, found: Definition) -> Iterator[str]:
    yield from _named("key", [f"'{row.name}' ({row.key_id})" for row in deletion_sql.keys_listing(tx, found.id)])
    yield from _named("person", [f"'{name}'" for name in deletion_sql.people_listing(tx, found.id)])
    yield from _named("run", *deletion_sql.runs_of_workflow(tx, found.id, _MOST_NAMED))


def _users_of_resource(tx: Tx, found: Definition) -> Iterator[str]:
    key = RESOURCE_KINDS[found.kind], found.name
    if key[0] in PINNED_KINDS:
        users = [row.name for row in definitions_sql.uses(tx, found.id, after="", limit=MOST_OF_A_KIND)]
        runs, count = deletion_sql.runs_of_pin(tx, found.id, _MOST_NAMED)
    else:
        users = uses.names_of_users(tx, key)
        publishing = deletion_sql.publishing(tx, found.id) if key[0] == "knowledge_graph" else []
        runs = sorted({*_runs_naming(tx, key), *publishing})
        count = len(runs)
    yield from _named("workflow", [f"'{name}'" for name in users])
    yield from _named("run", runs, count)


def _runs_naming(tx: Tx, key: ResourceKey) -> Iterator[str]:
    """Yields a run of each version that names a resource and that runs execute which have not ended."""
    name = canonical(key[1])
    for row in deletion_sql.versions_in_flight(tx):
        text = versions_sql.definition_text(tx, row.workflow_id, row.version) or ""
        if name in text and key in referred_resources(json.loads(text)):
            yield row.run_id


def _named(noun: str, names: Sequence[str], count: int | None = None) -> Iterator[str]:
    """Yields the first names, and how many more there are; `count` is of all, where there are more than are given."""
    yield from (f"{noun} {name}" for name in names[:_MOST_NAMED])
    more = (len(names) if count is None else count) - _MOST_NAMED
    if more > 0:
        yield f"{more:,} more of kind {noun}"

"""Deletes unused definitions, or refuses with their users; versions named by runs stay readable until retention."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from backend.common.clock import DAY_MS
from backend.common.errors import ApiError
from backend.common.json_text import canonical
from backend.resources.environments import sql as environments
from backend.services.audit import sql as audit
from backend.services.workflows import definitions, definitions_sql, deletion_sql, sql, versions_sql
from backend.services.workflows.definitions import WORKFLOW, Definition
from backend.services.workflows.manifests.names import MOST_OF_A_KIND, RESOURCE_KINDS
from backend.services.workflows.rules import ResourceKey
from backend.services.workflows.schedules import remove_schedules
from backend.services.workflows.uses import PINNED_KINDS, named_definitions
from backend.storage.database import Database, Tx
from backend.storage.retention import RetentionRule
from workflow_api.v1 import errors_pb2

Version: TypeAlias = tuple[str, int]
"""A workflow's id and the number of a version."""

_MOST_NAMED: Final = 20
"""Most users of each kind that a refusal names; further ones are counted."""


class _UnreadError(Exception):
    """Definitions of versions must be read, outside of the transaction, to know whether they name a resource."""

    def __init__(self, key: ResourceKey, versions: Sequence[Version]) -> None:
        super().__init__()
        self.key = key
        self.versions = versions


class _NamingVersions:
    """Cache of which workflow versions name a connector, knowledge graph or workflow.

    A version never changes, so each is read once, before the transaction of a deletion: definitions may have 8 MiB.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._named: dict[tuple[ResourceKey, Version], bool] = {}

    def read(self, key: ResourceKey, versions: Iterable[Version]) -> None:
        """Reads the definitions of versions, and caches whether they name the resource `key`."""
        name = canonical(key[1])
        for workflow_id, version in versions:
            read = partial(versions_sql.definition_text, workflow_id=workflow_id, version=version)
            text = self._database.read(read) or ""
            # A definition without the text of the name need not be parsed.
            self._named[key, (workflow_id, version)] = name in text and key in named_definitions(json.loads(text))

    def naming(self, key: ResourceKey, versions: Iterable[Version]) -> set[Version]:
        """Returns the versions among `versions` that name the resource `key`.

        Raises:
            _UnreadError: some versions have not been read.
        """
        versions = set(versions)
        if unread := sorted(each for each in versions if (key, each) not in self._named):
            raise _UnreadError(key, unread)
        return {each for each in versions if self._named[key, each]}


def delete_definition(database: Database, kind: str, id_or_name: str, *, now: int, actor: str) -> Definition:
    """Deletes a definition by id or name, and returns it.

    Its transaction excludes all other changes, so that a start or an apply is either seen or finds nothing.

    Raises:
        ApiError: `invalid_request` for an unknown kind, or with the names of users; `not_found`.
    """
    naming = _NamingVersions(database)
    while True:
        try:
            return database.write(lambda tx: _delete(tx, kind, id_or_name, naming, now=now, actor=actor))
        except _UnreadError as error:
            naming.read(error.key, error.versions)


def _delete(tx: Tx, kind: str, id_or_name: str, naming: _NamingVersions, *, now: int, actor: str) -> Definition:
    found = definitions.find(tx, kind, id_or_name)
    used_by = list(_users_of_workflow(tx, found, naming) if kind == WORKFLOW else _users_of_resource(tx, found, naming))
    stored = RESOURCE_KINDS.get(kind, "workflow")
    if used_by:
        noun = stored.replace("_", " ")
        message = f"The {noun} {found.name} cannot be deleted, because it is used by {', '.join(used_by)}."
        reasons = [("definition", f"must not be in use; {user} uses it") for user in used_by]
        raise ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, message, problems=reasons)
    if kind == WORKFLOW:
        deletion_sql.delete_workflow(tx, found.id, found.name, now)
        remove_schedules(tx, found.id, now)
    else:
        deletion_sql.delete_resource(tx, stored, found.id, found.name, now)
    if kind == "Environment":
        environments.set_packages(tx, found.id, None)
    details = {"name": found.name, "version": found.newest_version}
    audit.record(tx, at=now, actor=actor, action=f"{stored}.deleted", target=found.id, details=details)
    return found


def _users_of_workflow(tx: Tx, found: Definition, naming: _NamingVersions) -> Iterator[str]:
    yield from _named("key", [f"'{row.name}' ({row.key_id})" for row in deletion_sql.keys_listing(tx, found.id)])
    yield from _named("person", [f"'{name}'" for name in deletion_sql.people_listing(tx, found.id)])
    yield from _named("run", *deletion_sql.runs_of_workflow(tx, found.id, _MOST_NAMED))
    yield from _users_by_name(tx, (WORKFLOW.lower(), found.name), naming)


def _users_of_resource(tx: Tx, found: Definition, naming: _NamingVersions) -> Iterator[str]:
    kind = RESOURCE_KINDS[found.kind]
    if kind in PINNED_KINDS:
        users = [row.name for row in definitions_sql.uses(tx, found.id, after="", limit=MOST_OF_A_KIND)]
        yield from _named("workflow", [f"'{name}'" for name in users])
        yield from _named("run", *deletion_sql.runs_of_pin(tx, found.id, _MOST_NAMED))
        return
    yield from _users_by_name(tx, (kind, found.name), naming)
    if kind == "knowledge_graph":
        yield from _named("publication of run", *deletion_sql.publishing(tx, found.id, _MOST_NAMED))


def _users_by_name(tx: Tx, key: ResourceKey, naming: _NamingVersions) -> Iterator[str]:
    """Yields the workflows whose newest version names a definition, and the runs in flight whose version does."""
    newest = {(row.workflow_id, row.newest_version): row.name for row in sql.all_workflows(tx)}
    in_flight = {(row.workflow_id, row.version): row for row in deletion_sql.versions_in_flight(tx)}
    chosen = naming.naming(key, {*newest, *in_flight})
    yield from _named("workflow", [f"'{name}'" for name in sorted(newest[each] for each in newest.keys() & chosen)])
    running = [in_flight[each] for each in sorted(in_flight.keys() & chosen)]
    count = sum(row.runs for row in running)
    yield from _named("run", deletion_sql.some_runs(tx, running, _MOST_NAMED), count)


def _named(noun: str, names: Sequence[str], count: int | None = None) -> Iterator[str]:
    """Yields the first names, then the number of further ones; `count` is the total if `names` are not all."""
    yield from (f"{noun} {name}" for name in names[:_MOST_NAMED])
    more = (len(names) if count is None else count) - _MOST_NAMED
    if more > 0:
        yield f"{more:,} more of kind {noun}"


_BATCH: Final = 300


@dataclass(frozen=True, slots=True)
class AgentSourceRetention:
    """Retention of code folders: a day after the last apply, if no agent's newest or pinned version uses them."""

    name: str = "agent_sources"
    kept_ms: int = DAY_MS

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes a batch of code folders; see `RetentionRule.delete_batch`."""
        return definitions_sql.delete_unneeded(tx, now - self.kept_ms, _BATCH)


@dataclass(frozen=True, slots=True)
class LockRetention:
    """Retention of package locks: a day, if no environment's newest or pinned version uses them."""

    name: str = "environment_locks"
    kept_ms: int = DAY_MS

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes a batch of locks; see `RetentionRule.delete_batch`."""
        return environments.remove_unneeded(tx, sql.locks_in_use(tx), now - self.kept_ms, _BATCH)


@dataclass(frozen=True, slots=True)
class DeletedDefinitionRetention:
    """Retention of deleted definitions: a day, if no run, workflow version or publication names them."""

    name: str = "deleted_definitions"
    kept_ms: int = DAY_MS

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Removes a batch of deleted definitions; see `RetentionRule.delete_batch`."""
        return deletion_sql.remove_unnamed(tx, now - self.kept_ms, _BATCH)


# Deleted definitions first, because their code folders and locks are unneeded after them.
RETENTION: Final[tuple[RetentionRule, ...]] = (DeletedDefinitionRetention(), AgentSourceRetention(), LockRetention())

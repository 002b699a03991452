"""Deletes unused definitions, or refuses with their users; versions named by runs stay readable until retention."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

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

T = TypeVar("T")
Version: TypeAlias = tuple[str, int]
"""A workflow's id and the number of a version."""

_MOST_NAMED: Final = 20
"""Most users of each kind that a refusal names; further ones are counted."""


class UnreadError(Exception):
    """Versions of workflows must be read, apart from any change, before it is known whether they name a resource."""

    def __init__(self, versions: Sequence[tuple[ResourceKey, Version]]) -> None:
        super().__init__()
        self.versions = versions


class NamingVersions(Protocol):
    """Chooses the versions of workflows that name a definition."""

    def chosen(self, key: ResourceKey, versions: Iterable[Version]) -> set[Version]:
        """Returns the versions that name a resource.

        Raises:
            UnreadError: some of them have not been read.
        """


class StoredVersions:
    """Versions of workflows that name a connector, a knowledge graph or another workflow.

    A version never changes, so each is read once, before the transaction of a deletion: definitions may have 8 MiB.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._named: dict[tuple[ResourceKey, Version], bool] = {}

    def run(self, change: Callable[[], T]) -> T:
        """Runs a change, again and again as long as definitions must be read for it; returns its result."""
        while True:
            try:
                return change()
            except UnreadError as error:
                self._read(error.versions)

    def _read(self, unread: Iterable[tuple[ResourceKey, Version]]) -> None:
        """Reads the definitions of versions, each once and one by one."""
        keys: dict[Version, set[ResourceKey]] = {}
        for key, of_version in unread:
            keys.setdefault(of_version, set()).add(key)
        for (workflow_id, version), wanted in keys.items():
            read = partial(versions_sql.definition_text, workflow_id=workflow_id, version=version)
            text = self._database.read(read) or ""
            # To parse one that lacks the names would be for nothing.
            possible = {key for key in wanted if canonical(key[1]) in text}
            named = named_definitions(json.loads(text)) if possible else set()
            for key in wanted:
                self._named[key, (workflow_id, version)] = key in named

    def chosen(self, key: ResourceKey, versions: Iterable[Version]) -> set[Version]:
        """Returns the versions that name a resource; see `NamingVersions.chosen`."""
        versions = set(versions)
        if unread := [(key, each) for each in sorted(versions) if (key, each) not in self._named]:
            raise UnreadError(unread)
        return {each for each in versions if self._named[key, each]}


def delete_definition(database: Database, kind: str, id_or_name: str, *, now: int, actor: str) -> Definition:
    """Deletes a definition by id or name, and returns it.

    Its transaction excludes all other changes, so that a start or an apply is either seen or finds nothing.

    Raises:
        ApiError: `invalid_request` for an unknown kind, or with the names of users; `not_found`.
    """
    naming = StoredVersions(database)
    return naming.run(lambda: database.write(lambda tx: _delete(tx, kind, id_or_name, naming, now=now, actor=actor)))


def _delete(tx: Tx, kind: str, id_or_name: str, naming: NamingVersions, *, now: int, actor: str) -> Definition:
    found = definitions.find(tx, kind, id_or_name)
    used_by = list(users_of(tx, found, naming))
    if used_by:
        noun = RESOURCE_KINDS.get(kind, "workflow").replace("_", " ")
        message = f"The {noun} {found.name} cannot be deleted, because it is used by {', '.join(used_by)}."
        reasons = [("definition", f"must not be in use; {user} uses it") for user in used_by]
        raise ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, message, problems=reasons)
    remove(tx, found, now=now, actor=actor, owner_set=found.owner_set)
    return found


def remove(tx: Tx, found: Definition, *, now: int, actor: str, owner_set: str | None) -> None:
    """Marks a definition as deleted, whatever uses it, with an audit record that names the set that owned it."""
    stored = RESOURCE_KINDS.get(found.kind, "workflow")
    if found.kind == WORKFLOW:
        deletion_sql.delete_workflow(tx, found.id, found.name, now)
        remove_schedules(tx, found.id, now)
    else:
        deletion_sql.delete_resource(tx, stored, found.id, found.name, now)
    if found.kind == "Environment":
        environments.set_packages(tx, found.id, None)
    details: dict[str, object] = {"name": found.name, "version": found.newest_version}
    if owner_set is not None:
        details["set"] = owner_set
    audit.record(tx, at=now, actor=actor, action=f"{stored}.deleted", target=found.id, details=details)


def users_of(tx: Tx, found: Definition, naming: NamingVersions) -> Iterator[str]:
    """Yields what uses a definition, each with its noun, as `workflow 'Ready'`; raises as `naming`."""
    of_kind = _users_of_workflow if found.kind == WORKFLOW else _users_of_resource
    return of_kind(tx, found, naming)


def _users_of_workflow(tx: Tx, found: Definition, naming: NamingVersions) -> Iterator[str]:
    yield from _named("key", [f"'{row.name}' ({row.key_id})" for row in deletion_sql.keys_listing(tx, found.id)])
    yield from _named("person", [f"'{name}'" for name in deletion_sql.people_listing(tx, found.id)])
    yield from _named("run", *deletion_sql.runs_of_workflow(tx, found.id, _MOST_NAMED))
    yield from _users_by_name(tx, (WORKFLOW.lower(), found.name), naming)


def _users_of_resource(tx: Tx, found: Definition, naming: NamingVersions) -> Iterator[str]:
    kind = RESOURCE_KINDS[found.kind]
    if kind in PINNED_KINDS:
        users = [row.name for row in definitions_sql.uses(tx, found.id, after="", limit=MOST_OF_A_KIND)]
        yield from _named("workflow", [f"'{name}'" for name in users])
        yield from _named("run", *deletion_sql.runs_of_pin(tx, found.id, _MOST_NAMED))
        return
    yield from _users_by_name(tx, (kind, found.name), naming)
    if kind == "knowledge_graph":
        yield from _named("publication of run", *deletion_sql.publishing(tx, found.id, _MOST_NAMED))


def _users_by_name(tx: Tx, key: ResourceKey, naming: NamingVersions) -> Iterator[str]:
    """Yields the workflows whose newest versions name a definition, and the runs in flight whose versions do."""
    newest = {(row.workflow_id, row.newest_version): row.name for row in sql.all_workflows(tx)}
    in_flight = {(row.workflow_id, row.version): row for row in deletion_sql.versions_in_flight(tx)}
    chosen = naming.chosen(key, {*newest, *in_flight})
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

"""Pruning: an apply deletes, in its transaction, the definitions that its set owns and its files lack."""

import json
from collections.abc import Iterable, Sequence

from backend.common.errors import ApiError
from backend.common.json_text import canonical
from backend.services.workflows import definitions
from backend.services.workflows.definitions import WORKFLOW, Definition
from backend.services.workflows.deletion import NamingVersions, UnreadError, Version, remove, users_of
from backend.services.workflows.manifests.loader import Manifest
from backend.services.workflows.manifests.names import MANIFEST_KINDS
from backend.services.workflows.new_versions import ApplyResult
from backend.services.workflows.rules import ResourceKey
from backend.services.workflows.sets import Ownership
from backend.services.workflows.uses import named_definitions
from backend.storage.database import Tx
from workflow_api.v1 import errors_pb2


class AppliedVersions:
    """Finds the versions of workflows that name a definition, also among versions that this transaction has written.

    Other transactions cannot read the written versions, and a retry writes them again. So these are looked up in the
    applied documents, or in the previous version if they share its definition.
    """

    def __init__(self, stored: NamingVersions, manifests: Sequence[Manifest], applied: Sequence[ApplyResult]) -> None:
        self._stored = stored
        self._texts: dict[Version, str] = {}
        self._shared: dict[Version, Version] = {}
        for number, one in enumerate(applied):
            if one.kind != WORKFLOW:
                continue
            if number < len(manifests):
                self._texts[one.id, one.version] = manifests[number].definition
            elif one.previous_version is not None:
                self._shared[one.id, one.version] = (one.id, one.previous_version)

    def chosen(self, key: ResourceKey, versions: Iterable[Version]) -> set[Version]:
        """Returns the versions that name a definition; raises as the stored versions."""
        versions = set(versions)
        origins = {each: self._shared.get(each, each) for each in versions - self._texts.keys()}
        stored = self._stored.chosen(key, set(origins.values()))
        return {each for each, origin in origins.items() if origin in stored} | {
            each for each in versions & self._texts.keys() if _names(self._texts[each], key)
        }


def _names(text: str, key: ResourceKey) -> bool:
    return canonical(key[1]) in text and key in named_definitions(json.loads(text))


def prune(tx: Tx, owned: Ownership, naming: NamingVersions, *, now: int, actor: str) -> list[ApplyResult]:
    """Deletes the definitions that a set owns and the applied documents lack; returns an outcome for each definition.

    All are marked as deleted before their uses are looked up, so uses among pruned definitions do not count.

    Raises:
        ApiError: `invalid_request`, with the names of users of any of the definitions.
        UnreadError: definitions must be read first.
    """
    pruned = [definitions.Definition(_kind(row.kind), row.definition_id, row.name, row.version) for row in owned.pruned]
    for found in pruned:
        remove(tx, found, now=now, actor=actor, owner_set=owned.set_name)
    problems: list[tuple[str, str]] = []
    sentences: list[str] = []
    unread: list[tuple[ResourceKey, Version]] = []
    for found in pruned:
        try:
            used_by = list(users_of(tx, found, naming))
        except UnreadError as error:
            unread += error.versions
            continue
        if used_by:
            sentences.append(f"{found.kind} {found.name!r} is used by {', '.join(used_by)}")
            problems += (
                ("prune", f"{found.kind} {found.name!r} must not be in use; {user} uses it") for user in used_by
            )
    if unread:
        raise UnreadError(unread)
    if problems:
        message = f"Nothing was applied, because set {owned.set_name} cannot be pruned: {'; '.join(sentences[:_MOST])}."
        raise ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, message, problems=problems[:_MOST_PROBLEMS])
    return [_outcome(found, owned) for found in pruned]


_MOST = 20
_MOST_PROBLEMS = 200


def _kind(stored: str) -> str:
    return MANIFEST_KINDS.get(stored, WORKFLOW)


def _outcome(found: Definition, owned: Ownership) -> ApplyResult:
    version = found.newest_version
    return ApplyResult(
        found.kind, found.name, found.id, version, "deleted", previous_version=version, previous_set=owned.set_name
    )

"""Pruning: deletion of what a set owns and the files of an apply no longer have, in the transaction of that apply."""

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
    """Versions of workflows that name a definition, those that this transaction has written included.

    Only this transaction can read what it has written, and another try writes it again. So these versions are looked
    up by the texts of the documents, or by the version before where they share the definition of that.
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
    """Deletes what a set owns and the documents lack, after they were written; returns an outcome for each.

    All are marked as deleted before their uses are looked up: what is pruned does not keep anything else.

    Raises:
        ApiError: `invalid_request`, with the names of what uses any of them.
        UnreadError: definitions must be read first.
    """
    gone = [definitions.Definition(_kind(row.kind), row.definition_id, row.name, row.version) for row in owned.pruned]
    for found in gone:
        remove(tx, found, now=now, actor=actor, owner_set=owned.set_name)
    problems: list[tuple[str, str]] = []
    sentences: list[str] = []
    unread: list[tuple[ResourceKey, Version]] = []
    for found in gone:
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
    return [_outcome(found, owned) for found in gone]


_MOST = 20
_MOST_PROBLEMS = 200


def _kind(stored: str) -> str:
    return MANIFEST_KINDS.get(stored, WORKFLOW)


def _outcome(found: Definition, owned: Ownership) -> ApplyResult:
    version = found.newest_version
    return ApplyResult(
        found.kind, found.name, found.id, version, "deleted", previous_version=version, previous_set=owned.set_name
    )

"""Sets: names that own definitions, so that an apply for one set neither changes nor prunes definitions of another.

A set exists as long as it owns a definition.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from backend.common.errors import ApiError, invalid
from backend.common.paging import Paging
from backend.services.dependencies import Services
from backend.services.workflows import sql
from backend.services.workflows.manifests.loader import Manifest, refused
from backend.services.workflows.manifests.names import MANIFEST_KINDS, RESOURCE_KINDS
from backend.services.workflows.sql import OwnedRow
from backend.storage.database import Tx
from workflow_api.v1 import definitions_pb2, errors_pb2, workflows_pb2

DefinitionKey = tuple[str, str]
"""Kind in manifests and name of a definition."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Owners of definitions in an apply: `owners` before, and `set_name` for its documents afterwards, None for no set.

    `pruned` are the definitions to delete.
    """

    set_name: str | None = None
    owners: Mapping[DefinitionKey, str] = field(default_factory=dict)
    pruned: Sequence[OwnedRow] = ()

    @property
    def pruned_ids(self) -> frozenset[str]:
        """Ids of the definitions to delete."""
        return frozenset(row.definition_id for row in self.pruned)

    @property
    def pruned_of_kind(self) -> Counter[str]:
        """Numbers of definitions to delete, by kind in the tables."""
        return Counter(row.kind for row in self.pruned)


def check_ownership(tx: Tx, manifests: Sequence[Manifest], request: workflows_pb2.ApplyManifestsRequest) -> Ownership:
    """Checks that an apply may change its documents, and returns the owners before and after it.

    Raises:
        ApiError: `invalid_request`, if another set owns a document and `take_over` is not set, or if `prune` is set
            without `set_name`.
    """
    set_name = request.set_name if request.HasField("set_name") else None
    if request.prune and set_name is None:
        raise invalid("prune", "must have set_name beside it: what a set owns is pruned")
    rows = sql.owned_by_sets(tx)
    owners = {_key(row): row.owner_set for row in rows}
    if not request.take_over:
        _refuse_owned_by_others(manifests, owners, set_name)
    documents = {(manifest.kind, manifest.name) for manifest in manifests}
    pruned = [row for row in rows if request.prune and row.owner_set == set_name and _key(row) not in documents]
    return Ownership(set_name, owners, sorted(pruned, key=_key))


def _refuse_owned_by_others(
    manifests: Iterable[Manifest], owners: Mapping[DefinitionKey, str], set_name: str | None
) -> None:
    problems = []
    sentences = []
    for manifest in manifests:
        owner = owners.get((manifest.kind, manifest.name), set_name)
        if owner != set_name:
            sentences.append(
                f"{manifest.kind} {manifest.name!r} is owned by set {owner}: use --set {owner} or --take-over"
            )
            problems.append((f"{manifest.file}:{manifest.line}: name", sentences[-1]))
    if problems:
        more = f" So are {len(sentences) - 1:,} more." if len(sentences) > 1 else ""
        message = f"Nothing was applied. {sentences[0]}.{more}"
        raise ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, message, problems=refused(problems).problems)


def record_owner(tx: Tx, kind: str, definition_id: str, before: str | None, after: str | None) -> None:
    """Writes the owner of a definition if it changes; `kind` is the kind in manifests."""
    if before != after:
        sql.change_owner(tx, RESOURCE_KINDS.get(kind, sql.WORKFLOW), definition_id, after)


def list_sets(services: Services, request: definitions_pb2.ListSetsRequest) -> definitions_pb2.ListSetsResponse:
    """Returns a page of sets, by name, with the definitions that each owns, by kind, then name.

    Raises:
        ApiError: `invalid_request` for a token of another list.
    """
    paging = Paging(services.cursors, request)
    rows = sorted(services.database.snapshot(sql.owned_by_sets), key=lambda row: (row.owner_set, *_key(row)))
    items = [
        definitions_pb2.DefinitionSet(name=name, members=map(_member, members))
        for name, members in groupby(rows, lambda row: row.owner_set)
    ]
    shown, token = paging.page_of(items, lambda item: (item.name,))
    return definitions_pb2.ListSetsResponse(items=shown, next_page_token=token)


_WORKFLOW_KIND: Final = "Workflow"


def _key(row: OwnedRow) -> DefinitionKey:
    return MANIFEST_KINDS.get(row.kind, _WORKFLOW_KIND), row.name


def _member(row: OwnedRow) -> definitions_pb2.SetMember:
    kind, name = _key(row)
    return definitions_pb2.SetMember(kind=kind, id=row.definition_id, name=name, version=row.version)

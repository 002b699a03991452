"""Applies manifests: locks packages, checks expected versions, and writes new versions, or compares in a dry run.

Packages of environments are locked, so that a version has identical packages on all machines. Also restores a former
version as a new active one, with its pinned agents and environments.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from backend.common.errors import invalid
from backend.common.json_text import JsonMapping, JsonObject, canonical
from backend.resources.environments.lock import PackagesError, interpreter_tag
from backend.resources.environments.store import PackageStore
from backend.resources.roots.store import RootStore
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.workflows import definitions, definitions_sql, resources_sql, sql, versions_sql
from backend.services.workflows.apply_report import Report, reports, restored_reports
from backend.services.workflows.definitions import WORKFLOW, files_of
from backend.services.workflows.deletion import StoredVersions
from backend.services.workflows.manifests.attachments import Attachments
from backend.services.workflows.manifests.loader import Manifest, ManifestText, load_manifests, refused
from backend.services.workflows.manifests.packages import all_packages
from backend.services.workflows.manifests.variables import Variables, VariableValue
from backend.services.workflows.manifests.writer import manifest_value, yaml_text
from backend.services.workflows.manifests.yaml_reader import read_documents
from backend.services.workflows.new_versions import ApplyResult, add_next_version, apply_manifests, next_version
from backend.services.workflows.pruning import AppliedVersions, prune
from backend.services.workflows.schedules import sync_schedules
from backend.services.workflows.sets import check_ownership
from backend.storage.database import Database, Tx
from workflow_api.v1 import definitions_pb2, workflows_pb2

LOCKED = ("interpreter", "lock", "versions")
"""Fields of `python` that locking adds: tag of the interpreter, digest of the lock, and locked packages."""

_MOST_ROOTS_NAMED: Final = 20
_HOW_TO_ADD: Final = "an operator adds one by `workflow-api environments roots add`"

Place = tuple[str | int, ...]


def lock_packages(
    database: Database,
    store: PackageStore,
    manifests: Sequence[Manifest],
    files: Iterable[ManifestText],
    *,
    upgrade: bool = False,
) -> list[Manifest]:
    """Returns the manifests with a lock in each environment that has packages; `files` are their source files.

    An environment with unchanged requirements keeps its lock, unless `upgrade` asks for newer releases.

    Raises:
        ApiError: `invalid_request`, if the packages of an environment cannot be read or resolved.
    """
    sources = {file.name: file for file in files}
    locked: list[Manifest] = []
    problems: list[tuple[str, str]] = []
    for manifest in manifests:
        definition = json.loads(manifest.definition)
        if manifest.kind != "Environment" or not definition.get("python"):
            locked.append(manifest)
            continue
        source = sources[manifest.file]
        packages, found = all_packages(definition["python"], source.attachments)
        problems += (_problem(manifest, source.text, ("python", place), reason) for place, reason in found)
        if found:
            continue
        python = {"packages": packages, "preload": definition["python"]["preload"]}
        try:
            locked.append(_lock(database, store, manifest, {**definition, "python": python}, upgrade=upgrade))
        except PackagesError as error:
            place = _named_in(str(error), definition["python"]["packages"])
            problems.append(_problem(manifest, source.text, place, f"cannot be resolved: {error}"))
    if problems:
        raise refused(problems)
    return locked


def pin_roots(store: RootStore, manifests: Sequence[Manifest], files: Iterable[ManifestText]) -> list[Manifest]:
    """Returns the manifests with the digest of each root that an environment names; `files` are their source files.

    Raises:
        ApiError: `invalid_request`, if this machine has no root of the name.
    """
    texts = {file.name: file.text for file in files}
    pinned: list[Manifest] = []
    problems: list[tuple[str, str]] = []
    for manifest in manifests:
        definition = json.loads(manifest.definition) if manifest.kind == "Environment" else {}
        name = definition.get("root")
        root = None if name is None else store.get(name)
        if root is not None:
            definition = {**definition, "root_digest": root.digest}
            pinned.append(replace(manifest, definition=canonical(definition)))
            continue
        pinned.append(manifest)
        if name is not None:
            known = ", ".join(each.name for each in store.all()[:_MOST_ROOTS_NAMED]) or "none"
            reason = f"must name a root of the backend's machine ({known}), not '{name}': {_HOW_TO_ADD}"
            problems.append(_problem(manifest, texts[manifest.file], ("root",), reason))
    if problems:
        raise refused(problems)
    return pinned


def _lock(
    database: Database, store: PackageStore, manifest: Manifest, definition: JsonObject, *, upgrade: bool
) -> Manifest:
    python = definition["python"]
    row = database.read(lambda tx: resources_sql.resource(tx, "environment", manifest.name))
    before = None if row is None else json.loads(row.definition).get("python")
    wanted = (python["packages"], interpreter_tag())
    if before and (before["packages"], before["interpreter"]) == wanted and not upgrade:
        kept = {name: before[name] for name in LOCKED}
        return replace(manifest, definition=canonical({**definition, "python": {**python, **kept}}))
    lock = store.resolve(python["packages"])
    added = {"interpreter": interpreter_tag(), "lock": lock.digest, "versions": lock.versions}
    return replace(manifest, definition=canonical({**definition, "python": {**python, **added}}), lock=lock)


def _named_in(reason: str, packages: Sequence[str]) -> Place:
    """Returns the place of the requirement that a reason quotes, else the place of all requirements."""
    quoted = [
        index
        for index, requirement in enumerate(packages)
        if re.search(rf"(?<![\w.-]){re.escape(requirement)}(?![\w-])", reason)
    ]
    if len(quoted) == 1:
        return "python", "packages", quoted[0]
    return "python", "packages" if packages else "requirements"


def _problem(manifest: Manifest, text: str, place: Place, reason: str) -> tuple[str, str]:
    node = next((node for node in read_documents(text, []) if node.line == manifest.line), None)
    line = manifest.line if node is None else node.line_of(*place)
    named = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    return f"{manifest.file}:{line}: {named}", reason


_MOST_LINES: Final = 20_000


def manifest_difference(kind: str, before: JsonMapping, after: JsonMapping, names: tuple[str, str]) -> str:
    """Returns the unified diff of two definitions as manifests, with digests of files, locked packages and versions."""
    return difference(_manifest(kind, before), _manifest(kind, after), names)


def difference(before: JsonMapping, after: JsonMapping, names: tuple[str, str]) -> str:
    """Returns the unified diff of two definitions as YAML, "" if they are equal; `names` are its header."""
    old, new = (yaml_text(definition).splitlines(keepends=True) for definition in (before, after))
    if len(old) + len(new) > _MOST_LINES:
        # A comparison may take quadratic time.
        return (
            "" if old == new else f"--- {names[0]}\n+++ {names[1]}\n(over {_MOST_LINES:,} lines, which are not shown)\n"
        )
    return "".join(difflib.unified_diff(old, new, *names))


def _manifest(kind: str, definition: JsonMapping) -> JsonObject:
    """Returns a manifest with the digests of its files, its locked packages, and the versions that it uses."""
    python = definition.get("python") or {}
    beside = {
        "files": definition.get("files"),
        "locked": python.get("versions"),
        "root_digest": definition.get("root_digest"),
        "uses": definition.get("uses"),
    }
    return {**manifest_value(kind, definition), **{name: value for name, value in beside.items() if value}}


Expected = Mapping[tuple[str, str], int]
"""The version that each document replaces, by kind and name; 0 for a new definition."""


def attach_stored_folders(database: Database, files: Sequence[ManifestText], expected: Expected) -> list[ManifestText]:
    """Attaches the stored code folders of expected agents to files without attachments."""
    kept = Attachments(database.snapshot(lambda tx: dict(_stored_folders(tx, expected))))
    return [file if file.attachments.files else file._replace(attachments=kept) for file in files]


def require_expected(manifests: Sequence[Manifest], expected: Expected) -> None:
    """Refuses unexpected documents, and missing expected ones."""
    present = {(manifest.kind, manifest.name) for manifest in manifests}
    wanted = ", ".join(f"{kind} {name!r}" for kind, name in expected)
    problems = [
        (f"{manifest.file}:{manifest.line}: name", f"must be of the only document, {wanted}")
        for manifest in manifests
        if (manifest.kind, manifest.name) not in expected
    ]
    problems += (("files", f"must hold {kind} {name!r}") for kind, name in expected if (kind, name) not in present)
    if problems:
        raise refused(problems)


def require_versions(tx: Tx, manifests: Sequence[Manifest], expected: Expected) -> None:
    """Refuses documents whose newest stored version is not the expected one."""
    problems = []
    for manifest in manifests:
        version = expected.get((manifest.kind, manifest.name))
        newest = definitions.newest_version(tx, manifest.kind, manifest.name)
        if version is not None and version != newest:
            place, reason = "version", f"must be of version {newest}, which is the newest now"
            if not version:
                place, reason = "name", "is taken: edit what has it, or choose another"
            elif not newest:
                reason = "does not exist any more"
            problems.append((f"{manifest.file}:{manifest.line}: {place}", reason))
    if problems:
        raise refused(problems)


def _stored_folders(tx: Tx, expected: Expected) -> Iterator[tuple[str, bytes]]:
    """Yields the stored files of the expected agents, by path from the folder of the manifest."""
    for kind, name in expected:
        row = resources_sql.resource(tx, "agent", name) if kind == "Agent" else None
        definition = {} if row is None else json.loads(row.definition)
        archive = definitions_sql.archive(tx, definition["digest"]) if definition.get("source") else None
        if archive is not None:
            folder = "" if definition["source"] == "." else f"{definition['source']}/"
            yield from ((folder + path, content) for path, content in files_of(archive).items())


T = TypeVar("T")


class _RolledBackError(Exception):
    """Ends the transaction of a dry run."""


def apply_files(
    services: Services, packages: PackageStore, request: workflows_pb2.ApplyManifestsRequest, actor: str
) -> workflows_pb2.ApplyManifestsResponse:
    """Applies all files, or none; a dry run applies them in a transaction that is rolled back.

    Raises:
        ApiError: see `load_manifests`, `lock_packages`, `check_ownership`, `apply_manifests` and `prune`;
            `invalid_request`, if the files do not hold the expected documents, or a newer version exists.
    """
    files = [
        ManifestText(file.name, file.content, Attachments({each.path: each.content for each in file.attached_files}))
        for file in request.files
    ]
    expected = {(one.kind, one.name): one.version for one in request.expected}
    if expected:
        files = attach_stored_folders(services.database, files, expected)
    variables = _variables(request)
    manifests = load_manifests(files, services.schemas.manifest_checks(), variables)
    if expected:
        require_expected(manifests, expected)
    manifests = pin_roots(packages.roots, manifests, files)
    manifests = lock_packages(services.database, packages, manifests, files, upgrade=request.upgrade_packages)
    now = services.clock()
    capabilities = services.capabilities

    naming = StoredVersions(services.database)

    def work(tx: Tx) -> list[Report]:
        require_versions(tx, manifests, expected)
        owned = check_ownership(tx, manifests, request)
        applied = apply_manifests(tx, manifests, now=now, actor=actor, owned=owned)
        pruned = prune(tx, owned, AppliedVersions(naming, manifests, applied), now=now, actor=actor)
        found = reports(tx, applied, capabilities, definitions=request.dry_run)
        return [*found, *(Report(one, [], []) for one in pruned)]

    done = naming.run(lambda: write_or_try(services.database, work, dry_run=request.dry_run))
    if not request.dry_run:
        packages.wake()
    used = {name for manifest in manifests for name in manifest.variables}
    items = [applied_message(one, dry_run=request.dry_run) for one in done]
    for one, item in zip(done, items, strict=True):
        if request.dry_run and one.workflow is not None and (item.kind, item.name) in expected:
            item.definition = json.dumps(one.workflow, ensure_ascii=False)
    return workflows_pb2.ApplyManifestsResponse(items=items, used_variables=sorted(used))


def _variables(request: workflows_pb2.ApplyManifestsRequest) -> Variables:
    quoted = frozenset(request.text_variables)
    return {name: VariableValue(text, name in quoted) for name, text in request.variables.items()}


def write_or_try(database: Database, work: Callable[[Tx], T], *, dry_run: bool) -> T:
    """Writes changes, rolled back in a dry run, and returns their result."""
    tried: list[T] = []

    def trial(tx: Tx) -> T:
        tried[:] = [work(tx)]
        if dry_run:
            raise _RolledBackError
        return tried[0]

    try:
        return database.write(trial)
    except _RolledBackError:
        return tried[0]


def applied_message(report: Report, *, dry_run: bool) -> workflows_pb2.AppliedResource:
    """Returns the outcome of a manifest as a message; a dry run leaves out new ids, which it does not store."""
    one = report.applied
    changes = manifest_changes = ""
    if report.before is not None and report.after is not None:
        title = f"{one.kind} {one.name}, version"
        heads = f"{title} {one.previous_version}", f"{title} {one.version}"
        changes = difference(report.before, report.after, heads)
        manifest_changes = manifest_difference(one.kind, report.before, report.after, heads)
    return workflows_pb2.AppliedResource(
        kind=one.kind,
        name=one.name,
        id="" if dry_run and one.previous_version is None else one.id,
        version=one.version,
        outcome=one.outcome,
        changed_resources=one.changed_resources,
        previous_version=one.previous_version,
        difference=changes,
        manifest_difference=manifest_changes,
        not_ready=report.not_ready,
        warnings=report.warnings,
        set_name=one.set_name,
        previous_set=one.previous_set,
    )


def restore_version(
    services: Services, request: definitions_pb2.RestoreWorkflowVersionRequest, actor: str
) -> definitions_pb2.RestoreWorkflowVersionResponse:
    """Makes a former version active again as a new one; a dry run only reads.

    Raises:
        ApiError: `not_found`, `version_not_found`; `invalid_request`, if there is a newer version than expected.
    """
    now = services.clock()

    def work(tx: Tx) -> list[Report]:
        applied = _restore(tx, request, now, actor)
        return restored_reports(tx, applied, services.capabilities, restored=request.version)

    database = services.database
    done = database.snapshot(work) if request.dry_run else database.write(work)
    workflow, *pinned = (applied_message(one, dry_run=request.dry_run) for one in done)
    return definitions_pb2.RestoreWorkflowVersionResponse(workflow=workflow, pinned=pinned)


def _restore(tx: Tx, request: definitions_pb2.RestoreWorkflowVersionRequest, now: int, actor: str) -> ApplyResult:
    found = definitions.find(tx, WORKFLOW, request.workflow)
    row = sql.get(tx, found.id)
    assert row is not None, "it was found in this transaction"
    if request.HasField("expected_version") and request.expected_version != row.newest_version:
        raise invalid("expected_version", f"must be {row.newest_version}, the newest version now")
    text = definitions.text_of(tx, found, request.version)
    before = versions_sql.pins_of(tx, row.workflow_id, row.newest_version)
    pins = versions_sql.pins_of(tx, row.workflow_id, request.version)
    same_text = text == versions_sql.definition_text(tx, row.workflow_id, row.newest_version)
    if same_text and pins == before:
        outcome = "unchanged" if row.status == "active" else "updated"
        applied = ApplyResult(
            WORKFLOW,
            row.name,
            row.workflow_id,
            row.newest_version,
            outcome,
            previous_version=row.newest_version,
            previous_status=row.status,
            set_name=row.owner_set,
            previous_set=row.owner_set,
        )
    else:
        applied = next_version(row, before, pins)
    if applied.outcome != "unchanged" and not request.dry_run:
        if applied.version == row.newest_version:
            sql.change_workflow(tx, row, now, status="active")
        else:
            add_next_version(
                tx,
                row,
                before,
                pins,
                now,
                status="active",
                description=json.loads(text)["description"],
                shared_with=request.version,
            )
        details: dict[str, object] = {
            "name": row.name,
            "version": applied.version,
            "outcome": applied.outcome,
            "restored_version": request.version,
        }
        if applied.changed_resources:
            details["changed_resources"] = applied.changed_resources
        if row.owner_set is not None:
            details["set"] = row.owner_set
        audit.record(tx, at=now, actor=actor, action="workflow.applied", target=row.workflow_id, details=details)
        sync_schedules(tx, row.workflow_id, now)
    return applied

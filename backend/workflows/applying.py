"""Applies the files of a request, and reports what became of them."""

from collections.abc import Callable
from typing import TypeVar

from backend.environments.store import PackageStore
from backend.services import Services
from backend.storage.database import Database, Tx
from backend.workflows.apply_report import Report, reports
from backend.workflows.difference import difference, manifest_difference
from backend.workflows.expected_versions import refuse_newer, refuse_others, with_kept_folders
from backend.workflows.locking import lock_packages
from backend.workflows.manifests.attachments import Attachments
from backend.workflows.manifests.loader import ManifestText, load_manifests
from backend.workflows.service import apply_manifests
from workflow_api.v1 import workflows_pb2

T = TypeVar("T")


class _TakenBackError(Exception):
    """Ends the transaction of a dry run."""


def apply_files(
    services: Services, packages: PackageStore, request: workflows_pb2.ApplyManifestsRequest, actor: str
) -> workflows_pb2.ApplyManifestsResponse:
    """Applies all files, or nothing; a dry run applies them in a transaction that is taken back.

    Raises:
        ApiError: see `load_manifests`, `lock_packages` and `apply_manifests`; `invalid_request`, if the files do not
            hold what is expected, or something newer exists.
    """
    files = [
        ManifestText(file.name, file.content, Attachments({each.path: each.content for each in file.attached_files}))
        for file in request.files
    ]
    expected = {(one.kind, one.name): one.version for one in request.expected}
    if expected:
        files = with_kept_folders(services.database, files, expected)
    manifests = load_manifests(files, services.schemas.manifest_checks())
    if expected:
        refuse_others(manifests, expected)
    manifests = lock_packages(services.database, packages, manifests, files, upgrade=request.upgrade_packages)
    now = services.clock()
    capabilities = services.capabilities

    def work(tx: Tx) -> list[Report]:
        refuse_newer(tx, manifests, expected)
        applied = apply_manifests(tx, manifests, now=now, actor=actor)
        return reports(tx, applied, capabilities, definitions=request.dry_run)

    done = in_trial(services.database, work, dry_run=request.dry_run)
    if not request.dry_run:
        packages.wake()
    return workflows_pb2.ApplyManifestsResponse(items=[applied_message(one, dry_run=request.dry_run) for one in done])


def in_trial(database: Database, work: Callable[[Tx], T], *, dry_run: bool) -> T:
    """Returns the result of changes, which are taken back in a dry run."""
    tried: list[T] = []

    def trial(tx: Tx) -> T:
        tried[:] = [work(tx)]
        if dry_run:
            raise _TakenBackError
        return tried[0]

    try:
        return database.write(trial)
    except _TakenBackError:
        return tried[0]


def applied_message(report: Report, *, dry_run: bool) -> workflows_pb2.AppliedResource:
    """What became of a manifest, or would become of it in a dry run, whose new ids are not kept."""
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
    )
